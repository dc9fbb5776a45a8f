"""What the site adds to the pages as they lie in docs/, which also read well on a code host.

- A link out of docs/, to an example say, leads to a page that shows the file.
- A block of commands without a language is highlighted as such.
- A list may follow its paragraph without an empty line, as on a code host.
- A picture leads to itself: on a phone it is too small to read.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

#: a link that leaves docs/: [text](../path), with an anchor or without
OUTWARD = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".md": "markdown"}
SHOWN = 20_000  # characters of a file: results may be long

PICTURE = re.compile(r'(<a [^>]*>)?(<img [^>]*\bsrc="(images/[^"]+)"[^>]*>)')
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
COMMANDS = re.compile(
    r"^```\n(?=(?:\$ )?(?:flashdqn|python|make|pip|torchrun|source|cd|tensorboard|wandb|mlflow) )", re.M
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A page for every file outside of docs/ that a page in it links to."""
    root = Path(config.config_file_path).parent
    wanted: set[str] = set()
    for file in files.documentation_pages():
        wanted.update(path for path, _ in OUTWARD.findall(file.content_string))
    for path in sorted(wanted):
        if (root / path).is_file():
            page = File.generated(config, shown_at(path), content=show(root / path, path))
            page.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Outward links lead to those pages, and commands look like commands."""
    markdown = OUTWARD.sub(
        lambda link: f"]({shown_at(link[1])})" if files.get_file_from_path(shown_at(link[1])) else link[0],
        markdown,
    )
    return with_room_for_lists(COMMANDS.sub("```bash\n", markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Pictures that do not lead elsewhere lead to themselves."""
    return PICTURE.sub(lambda found: found[0] if found[1] else f'<a href="{found[3]}">{found[2]}</a>', html)


def with_room_for_lists(markdown: str) -> str:
    """An empty line between a paragraph and the list behind it, which Python-Markdown asks for."""
    lines: list[str] = []
    fenced = listed = False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        item = bool(ITEM.match(line))
        if item and not fenced and not listed and lines and lines[-1].strip():
            lines.append("")
        # A list goes on with its items, with what is indented, and over empty lines.
        listed = not fenced and (item or (listed and (not line.strip() or line.startswith(" "))))
        lines.append(line)
    return "\n".join(lines)


def shown_at(path: str) -> str:
    """Where the page of a file lies."""
    return f"{path.replace('/', '-')}.md"


def show(file: Path, path: str) -> str:
    """The file as a page; Markdown as it is, with its pictures, but without its links."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        text = re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
        return text.replace("](docs/images/", "](images/")
    cut = "" if len(text) <= SHOWN else f"\nThe first {SHOWN:,} of {len(text):,} characters.\n"
    fence = "```" if "```" not in text else "`````"
    code = f"{fence}{LANGUAGES.get(file.suffix, '')}\n{text[:SHOWN]}\n{fence}"
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n{cut}\n{code}\n"

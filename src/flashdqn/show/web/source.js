/* The server's games: `moves` brings some of one. */
class ServerSource {
  async about() {
    return this.ask('/api/run');
  }
  async moves(player, seed, from) {
    return this.ask(`/api/game?player=${encodeURIComponent(player)}&seed=${seed}&from=${from}&count=60`);
  }
  async ask(address) {
    const answer = await fetch(address);
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    return content;
  }
}

/* One game inside the page, compressed. */
class PageSource {
  constructor(data) {
    this.data = data;
  }
  async about() {
    const bytes = Uint8Array.from(atob(this.data), character => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    this.game = await new Response(stream).json();
    return this.game.about;
  }
  async moves(player, seed, from) {
    return { from, over: true, turns: this.game.turns.slice(from) };
  }
}

"""The fire of the benchmark in plain Python and NumPy, from its description alone (docs/fuelbreaks-benchmark.md).

Nothing of flashdqn is used, so that others can check the numbers: a fuel bed by Rothermel, a crown fire by Van
Wagner and Cruz, the shape that a point grows into, and the fastest path by Dijkstra's algorithm. It is slow.
"""

from __future__ import annotations

import heapq
import math
from pathlib import Path
from typing import Any

import numpy as np

#: By number: depth, extinction, heat, whether herbs cure, six loads, six ratios of surface to volume.
FUELS = {
    int(row[0]): row[1:]
    for row in np.loadtxt(Path(__file__).with_name("fuels.csv"), delimiter=",", skiprows=1)
}
CLASSES = 6  # dead 1-h, 10-h, 100-h, dead herbs; live herbs, live wood
CELL_SIZE = 30.0
_HALF = [(-1, 0), (0, 1), (-1, 1), (1, 1), (-2, 1), (-1, 2), (1, 2), (2, 1)]
MOVES = [signed for r, c in _HALF for signed in ((r, c), (-r, -c))]
SHORTEST = 0.01  # minutes
NORMALS, FINE = 120, 5

Vector = np.ndarray  # (east, north, up)


def weigh(values: list[float], weights: list[float]) -> float:
    """A sum of products."""
    return sum(v * w for v, w in zip(values, weights, strict=True))


def fuel_bed(number: int, weather: dict[str, float]) -> dict[str, float]:
    """A fuel model at rest: rate R₀ (m/min), intensity (kW/m), limit of wind (m/min), factors of slope and wind."""
    depth, extinction, heat, dynamic, *rest = FUELS[number].tolist()
    load, ratios = rest[:CLASSES], rest[CLASSES:]
    if dynamic:
        moved = load[4] * (1 - min(max((weather["live_herbaceous"] - 0.3) / 0.9, 0), 1))
        load[3], load[4] = moved, load[4] - moved
    names = ("dead_1h", "dead_10h", "dead_100h", "dead_1h", "live_herbaceous", "live_woody")
    moist = [weather[name] for name in names]
    area = [s * w / 32.0 for s, w in zip(ratios, load, strict=True)]
    parts = (range(4), range(4, CLASSES))
    totals = [sum(area[j] for j in part) for part in parts]
    share = [area[j] / (totals[j > 3] or 1.0) for j in range(CLASSES)]
    weight = [share[j] * totals[j > 3] / sum(totals) for j in range(CLASSES)]
    sigma = weigh(ratios, weight)
    density = sum(load) / depth
    beta = density / 32.0
    relative = beta / (3.348 * sigma**-0.8189)
    # The moisture at which live fuel goes out.
    dead = [load[j] * math.exp(-138 / ratios[j]) if ratios[j] else 0.0 for j in range(4)]
    live = sum(load[j] * math.exp(-500 / ratios[j]) if ratios[j] else 0.0 for j in (4, 5))
    live_extinction = extinction
    if sum(dead) > 1e-6 and live > 1e-6:
        wet = weigh(dead, moist[:4]) / sum(dead)
        limit = 2.9 * sum(dead) / live * (1 - wet / extinction) - 0.226
        live_extinction = max(extinction, limit)
    size = [sum(s >= bound for bound in (16, 48, 96, 192, 1200)) for s in ratios]
    release = 0.0
    for part, limit in zip(parts, (extinction, live_extinction), strict=True):
        group = {j: sum(share[i] for i in part if size[i] == size[j]) for j in part}
        net = sum(group[j] * load[j] for j in part) * (1 - 0.0555)
        x = sum(share[j] * moist[j] for j in part) / limit
        if x < 1:
            damping = 1 - 2.59 * x + 5.11 * x**2 - 3.52 * x**3
            release += net * heat * damping * 0.174 * 0.01**-0.19
    a = 133 * sigma**-0.7913
    velocity = sigma**1.5 / (495 + 0.0594 * sigma**1.5) * relative**a * math.exp(a * (1 - relative))
    reaction = velocity * release
    flux = math.exp((0.792 + 0.681 * math.sqrt(sigma)) * (beta + 0.1)) / (192 + 0.2595 * sigma)
    ignite = [math.exp(-138 / s) * (250 + 1116 * m) if s else 0.0 for s, m in zip(ratios, moist, strict=True)]
    rate = reaction * flux / (density * weigh(ignite, weight))
    power = 0.02526 * sigma**0.54
    wind = 7.47 * math.exp(-0.133 * sigma**0.55) * relative ** (-0.715 * math.exp(-3.59e-4 * sigma))
    return {
        "rate": rate / 3.281,
        "intensity": reaction * rate * 384 / sigma / 60 * 3.46165186,
        "limit": 0.9 * reaction / 3.281,
        "slope": 5.275 * beta**-0.3,
        "wind": wind * 3.281**power,
        "power": power,
        "depth": depth,
    }


def lift(east: float, north: float, gradient: tuple[float, float]) -> Vector:
    """A vector on the map, lifted into the plane of the slope."""
    return np.array([east, north, east * gradient[0] + north * gradient[1]])


def unit(vector: Vector) -> Vector:
    length = math.sqrt(float(vector @ vector))
    return vector / length if length > 0 else vector


def midflame_share(depth: float, height: float, cover: float) -> float:
    """The wind at mid-flame over that at 20 ft; feet."""
    if cover / 3 >= 0.05 and height >= 6:
        return 0.555 / (math.sqrt(cover / 3 * height) * math.log((20 + 0.36 * height) / (0.13 * height)))
    return 1.83 / math.log((20 + 0.36 * depth) / (0.13 * depth))


def eccentricity(proportions: float) -> float:
    return math.sqrt(proportions**2 - 1) / proportions


def front(ellipse: dict[str, Any], facing: Vector) -> float:
    """The rate of a front that faces a direction, as a share of the head's."""
    e = ellipse["e"]
    along = e * float(ellipse["head"] @ facing) / (1 + e)
    return along + math.sqrt((1 - e) / (1 + e) + along**2)


def cell_ellipses(cell: dict[str, float], bed: dict[str, float], weather: dict[str, float]) -> dict[str, Any]:
    """The ellipses of the surface fire and of the crown fire, and the intensity at which the canopy burns."""
    steep = math.tan(math.radians(cell["slope"]))
    uphill = math.radians(cell["aspect"] + 180)
    gradient = (steep * math.sin(uphill), steep * math.cos(uphill))
    toward = math.radians(weather["wind_from"] + 180)
    wind = lift(math.sin(toward), math.cos(toward), gradient)
    along = math.sqrt(float(wind @ wind))
    rise = np.array([*gradient, steep**2])
    share = midflame_share(bed["depth"], cell["canopy_height"] * 3.281, cell["canopy_cover"])
    midflame = weather["wind_speed"] / 1.15 / 0.06 * share
    both = bed["wind"] * (midflame * along) ** bed["power"] * unit(wind) + bed["slope"] * steep**2 * unit(
        rise
    )
    phi = math.sqrt(float(both @ both))
    effective = (phi / bed["wind"]) ** (1 / bed["power"])
    if effective > bed["limit"]:
        effective = bed["limit"]
        phi = bed["wind"] * effective ** bed["power"]
    mph = effective * 0.0372840909091
    proportions = min(8.0, 0.936 * math.exp(0.1147 * mph) + 0.461 * math.exp(-0.0692 * mph) - 0.397)
    head = both if phi > 0 else rise if steep > 0 else np.array([0.0, 1.0, 0.0])
    surface = {"rate": bed["rate"] * (1 + phi), "e": eccentricity(proportions), "head": unit(head)}
    critical = math.inf
    if cell["canopy_cover"] > 0.4:
        critical = (0.01 * cell["canopy_base_height"] * (460 + 2600 * weather["foliar"])) ** 1.5
    speed, density = weather["wind_speed"] * along, cell["canopy_bulk_density"]
    active = 11.02 * speed**0.9 * density**0.19 * math.exp(-17 * weather["dead_1h"])
    criterion = active * density / 3
    crown = active if criterion > 1 else active * math.exp(-criterion)
    canopy = {"rate": crown, "e": eccentricity(1 + 0.125 * speed / 1.15 / 1.609344), "head": unit(wind)}
    heat = bed["intensity"] * (1 + phi)
    return {
        "surface": surface,
        "canopy": canopy,
        "heat": heat,
        "critical": critical,
        "gradient": gradient,
    }


def plane_axes(gradient: tuple[float, float]) -> tuple[Vector, Vector]:
    """Two unit vectors at right angles in the plane of the slope; the first lies over the east."""
    a, b = gradient
    long, plane = math.sqrt(1 + a * a), math.sqrt(1 + a * a + b * b)
    return np.array([1, 0, a]) / long, np.array([-a * b, long * long, b]) / (long * plane)


def canopy_edges(found: dict[str, Any]) -> list[tuple[float, Vector]]:
    """The two fronts at which the canopy stops burning: rate and direction."""
    surface, e = found["surface"], found["surface"]["e"]
    share = found["critical"] / found["heat"]
    if share <= 0:
        return []
    cosine = (share**2 - (1 - e) / (1 + e)) / (2 * share) * (1 + e) / max(e, 1e-9)
    if not -1 < cosine < 1:
        return []
    first, second = plane_axes(found["gradient"])
    x, y, sine = float(surface["head"] @ first), float(surface["head"] @ second), math.sqrt(1 - cosine**2)
    turned = [(x * cosine - y * sine, y * cosine + x * sine), (x * cosine + y * sine, y * cosine - x * sine)]
    return [(surface["rate"] * share, p * first + q * second) for p, q in turned]


def ray_speeds(found: dict[str, Any]) -> list[float]:
    """Meters per minute on the map in the direction of every move."""
    surface, canopy = found["surface"], found["canopy"]
    azimuths = [math.degrees(math.atan2(c, -r)) % 360 for r, c in MOVES]
    first, second = plane_axes(found["gradient"])
    fronts, leading = [], 0
    if found["heat"] >= found["critical"]:
        for j in range(NORMALS):
            angle = math.radians(360 * j / NORMALS)
            facing = math.cos(angle) * first + math.sin(angle) * second
            share = front(surface, facing)
            rate = surface["rate"] * share
            above = canopy["rate"] * front(canopy, facing)
            if found["heat"] * share >= found["critical"] and above > rate:
                rate, leading = above, leading + 1
            fronts.append((rate, facing))
    if leading in (0, NORMALS):
        return ellipse_speeds(surface if leading == 0 else canopy, found["gradient"], azimuths)
    fronts += canopy_edges(found)
    rates, normals = np.array([rate for rate, _ in fronts]), np.array([n for _, n in fronts])

    def speed(azimuth: float) -> float:
        ray = lift(math.sin(math.radians(azimuth)), math.cos(math.radians(azimuth)), found["gradient"])
        along = normals @ unit(ray)
        ahead = along > 0.01
        return float((rates[ahead] / along[ahead]).min()) / math.sqrt(float(ray @ ray))

    ordered = sorted(azimuths)
    speeds = []
    for azimuth in azimuths:
        at = ordered.index(azimuth)
        left = (azimuth - ordered[at - 1]) % 360 / 2
        right = (ordered[(at + 1) % len(ordered)] - azimuth) % 360 / 2
        fan = [azimuth - left + (left + right) * (j + 0.5) / FINE for j in range(FINE)]
        speeds.append(math.sqrt(sum(speed(one) ** 2 for one in fan) / FINE))
    return speeds


def ellipse_speeds(
    ellipse: dict[str, Any], gradient: tuple[float, float], azimuths: list[float]
) -> list[float]:
    """Rays of one ellipse, all made faster by the factor that gives their polygon the ellipse's area."""
    e, rate, speeds = ellipse["e"], ellipse["rate"], []
    for azimuth in azimuths:
        ray = lift(math.sin(math.radians(azimuth)), math.cos(math.radians(azimuth)), gradient)
        long = math.sqrt(float(ray @ ray))
        speeds.append(rate * (1 - e) / (1 - e * float(ellipse["head"] @ ray) / long) / long)
    order = sorted(range(len(azimuths)), key=lambda k: azimuths[k])
    area = 0.0
    for here, there in zip(order, order[1:] + order[:1], strict=True):
        area += 0.5 * speeds[here] * speeds[there] * math.sin(math.radians(azimuths[there] - azimuths[here]))
    half = rate / (1 + e)
    whole = math.pi * half * half * math.sqrt(1 - e * e) / math.sqrt(1 + gradient[0] ** 2 + gradient[1] ** 2)
    return [speed / math.sqrt(area / whole) for speed in speeds]


def cells_along(move: tuple[int, int]) -> tuple[list[tuple[tuple[int, int], float]], list[tuple[int, int]]]:
    """The cells that a move passes with the share of its way in each, and those that it touches by a corner."""
    if abs(move[0]) == abs(move[1]) == 1:
        return [((0, 0), 0.5), (move, 0.5)], [(move[0], 0), (0, move[1])]
    if max(map(abs, move)) == 1:
        return [((0, 0), 0.5), (move, 0.5)], []
    half = (int(move[0] / 2), int(move[1] / 2))
    return [((0, 0), 0.25), (half, 0.25), ((move[0] - half[0], move[1] - half[1]), 0.25), (move, 0.25)], []


def travel_times(layers: dict[str, np.ndarray], weather: dict[str, float]) -> dict[str, Any]:
    """Minutes of every move out of every cell, [cells, moves] float32, and where fire can burn."""
    rows, columns = layers["slope"].shape
    present = set(layers["fuel_model"].astype(int).ravel().tolist())
    beds = {number: fuel_bed(number, weather) for number in FUELS if number in present}
    slow: dict[tuple[int, int], list[float]] = {}
    for row in range(rows):
        for column in range(columns):
            cell = {name: float(layer[row, column]) for name, layer in layers.items()}
            bed = beds.get(int(cell["fuel_model"]))
            if bed is not None and bed["rate"] > 0:
                slow[row, column] = [1 / speed for speed in ray_speeds(cell_ellipses(cell, bed, weather))]
    times = np.full((rows * columns, len(MOVES)), np.inf, dtype=np.float32)
    for k, move in enumerate(MOVES):
        passed, touched = cells_along(move)
        length = math.hypot(*move) * CELL_SIZE
        for row, column in slow:
            way = [((row + r, column + c), share) for (r, c), share in passed]
            if all(at in slow for at, _ in way) and all((row + r, column + c) in slow for r, c in touched):
                minutes = sum(share * length * slow[at][k] for at, share in way)
                times[row * columns + column, k] = max(minutes, SHORTEST)
    return {"times": times, "burnable": slow, "shape": (rows, columns)}


def burn_fire(tables: dict[str, Any], breaks: np.ndarray, ignition: int, duration: float) -> np.ndarray:
    """Minutes of arrival, [cells] float32; infinite where the fire does not arrive within its duration."""
    rows, columns = tables["shape"]
    times, free = tables["times"], np.zeros(rows * columns, dtype=bool)
    free[[row * columns + column for row, column in tables["burnable"]]] = True
    free &= ~breaks
    arrival = np.full(rows * columns, np.inf, dtype=np.float32)
    if not free[ignition]:
        return arrival
    arrival[ignition] = 0
    queue = [(np.float32(0), int(ignition))]
    while queue:
        here, cell = heapq.heappop(queue)
        if here > arrival[cell]:
            continue
        for k, move in enumerate(MOVES):
            if not np.isfinite(times[cell, k]):
                continue
            passed, touched = cells_along(move)
            row, column = divmod(cell, columns)
            on_the_way = [offset for offset, _ in passed] + touched
            if not all(free[(row + r) * columns + column + c] for r, c in on_the_way):
                continue
            # Half a cell around the middle of the ignition burns at once.
            outside = np.float32(1 - 0.5 / math.hypot(*move))
            later = times[cell, k] * outside if cell == ignition else here + times[cell, k]
            target = cell + move[0] * columns + move[1]
            if later <= np.float32(duration) and later < arrival[target]:
                arrival[target] = later
                heapq.heappush(queue, (later, target))
    return arrival

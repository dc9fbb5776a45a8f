'use strict';
/* Scenes (see scene.py) on a canvas: the same shapes as paint.py draws. */

const NAMES = {
  rect(on, [x, y, width, height, fill, radius], tint) {
    on.fillStyle = tint(fill);
    on.beginPath();
    on.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
    on.fill();
  },
  disc(on, [x, y, radius, fill], tint) {
    on.fillStyle = tint(fill);
    on.beginPath();
    on.arc(x, y, radius, 0, 2 * Math.PI);
    on.fill();
  },
  line(on, [points, width, color], tint) {
    on.strokeStyle = tint(color);
    on.lineWidth = width;
    on.beginPath();
    for (let k = 0; k < points.length; k += 2) on.lineTo(points[k], points[k + 1]);
    on.stroke();
  },
  trail(on, [points, width, near, far], tint) {
    const last = Math.max(1, points.length / 2 - 1);
    on.lineWidth = width;
    on.lineCap = 'round';
    for (let k = points.length / 2 - 1; k >= 0; k--) {
      const next = Math.min(k + 1, last);
      on.strokeStyle = blend(tint(near), tint(far), k / last);
      on.beginPath();
      on.moveTo(points[2 * k], points[2 * k + 1]);
      on.lineTo(points[2 * next], points[2 * next + 1]);
      on.stroke();
    }
    on.lineCap = 'butt';
  },
  label(on, [x, y, text, size, fill, align], tint) {
    on.fillStyle = tint(fill);
    on.font = `${size}px system-ui, sans-serif`;
    on.textAlign = align;
    on.textBaseline = 'middle';
    on.fillText(text, x, y);
  },
  cells(on, [x, y, side, columns, palette, codes], tint) {
    const colors = palette.map(tint);
    for (let k = 0; k < codes.length; k++) {
      on.fillStyle = colors[CODES.indexOf(codes[k])];
      // a little over the edge, so the ground does not show between two cells
      on.fillRect(x + (k % columns) * side, y + Math.floor(k / columns) * side, side + 0.3, side + 0.3);
    }
  },
  picture(on, [x, y, width, height, data], tint, images) {
    const image = images.get(data);
    if (image) on.drawImage(image, x, y, width, height);
  },
};
const CODES = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

function channels(color) {
  return [1, 3, 5].map(k => parseInt(color.slice(k, k + 2), 16));
}

function blend(near, far, share) {
  const other = channels(far);
  const mixed = channels(near).map((value, k) => Math.round(value + (other[k] - value) * share));
  return `rgb(${mixed.join(',')})`;
}

function paint(on, scene, tint, images) {
  for (const [name, ...fields] of scene) NAMES[name](on, fields, tint, images);
}

/* Values over the board, for a task with an action per cell: pale for the least, strong for the best. */
function paintHeat(on, heat, turn, tint) {
  const legal = k => !turn.mask || turn.mask[k] === '1';
  const [low, high] = extent([turn]);
  for (let k = 0; k < Math.min(heat.count, turn.q.length); k++) {
    if (!legal(k)) continue;
    const share = high > low ? (turn.q[k] - low) / (high - low) : 1;
    on.globalAlpha = 0.6 * share ** 3;
    on.fillStyle = tint('heat');
    on.fillRect(heat.x + (k % heat.columns) * heat.side, heat.y + Math.floor(k / heat.columns) * heat.side,
      heat.side, heat.side);
  }
  on.globalAlpha = 1;
  if (turn.action !== null && turn.action < heat.count) {
    on.strokeStyle = tint('ink');
    on.lineWidth = Math.max(1.5, heat.side / 6);
    on.strokeRect(heat.x + (turn.action % heat.columns) * heat.side,
      heat.y + Math.floor(turn.action / heat.columns) * heat.side, heat.side, heat.side);
  }
}

function extent(turns) {
  let low = Infinity, high = -Infinity;
  for (const turn of turns) {
    turn.q.forEach((value, k) => {
      if (turn.mask && turn.mask[k] !== '1') return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
  }
  return low <= high ? [low, high] : [0, 0];
}

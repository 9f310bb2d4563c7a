// The moving picture: satellites, links of the way and what is below, on a globe or a map. All data is in the page.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("orbit-data").textContent);
  const canvas = document.getElementById("orbit-canvas"), pen = canvas.getContext("2d");
  const slider = document.getElementById("orbit-time"), said = document.getElementById("orbit-said");
  const every = document.getElementById("orbit-all");
  const play = document.getElementById("orbit-play"), view = document.getElementById("orbit-view");
  const bytes = Uint8Array.from(atob(data.positions), (c) => c.charCodeAt(0));
  const all = new Int16Array(bytes.buffer), count = data.satellites, R = 6378.137;
  const DEG = Math.PI / 180;
  const shore = data.coast.map((line) => line.map(([lon, lat]) => onGround(lon, lat)));
  const sites = data.sites.map(([name, lon, lat]) => ({ name, at: onGround(lon, lat) }));
  let time = 0, running = false, before = null;

  function onGround(lon, lat) {
    return [R * Math.cos(lat * DEG) * Math.cos(lon * DEG), R * Math.cos(lat * DEG) * Math.sin(lon * DEG), R * Math.sin(lat * DEG)];
  }
  function position(n, t) { // between two frames on the way between, at the height of both
    const frames = data.frames, last = frames.length - 1;
    let k = 0;
    while (k < last - 1 && frames[k + 1] <= t) k++;
    const next = Math.min(k + 1, last), part = next > k ? Math.min(1, (t - frames[k]) / (frames[next] - frames[k])) : 0;
    const a = (k * count + n) * 3, b = (next * count + n) * 3, p = [0, 1, 2].map((i) => all[a + i] + (all[b + i] - all[a + i]) * part);
    const high = (1 - part) * Math.hypot(all[a], all[a + 1], all[a + 2]) + part * Math.hypot(all[b], all[b + 1], all[b + 2]);
    const scale = data.scale * high / Math.hypot(...p);
    return p.map((x) => x * scale);
  }
  const middle = (() => { // the globe looks at the middle of the pair
    const m = [0, 1, 2].map((i) => sites[0].at[i] + sites[1].at[i]), flat = Math.hypot(m[0], m[1]);
    return { lon: Math.atan2(m[1], m[0]), lat: Math.max(-1, Math.min(1, Math.atan2(m[2], flat))) };
  })();
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function globe() {
    const w = canvas.width, h = canvas.height, size = data.radius / (Math.min(w, h) / 2.06);
    const [sl, cl, sp, cp] = [Math.sin(middle.lon), Math.cos(middle.lon), Math.sin(middle.lat), Math.cos(middle.lat)];
    return (p) => {
      const east = -sl * p[0] + cl * p[1], out = cl * p[0] + sl * p[1];
      const north = cp * p[2] - sp * out, near = cp * out + sp * p[2];
      return { x: w / 2 + east / size, y: h / 2 - north / size, seen: near > 0 || east * east + north * north > R * R };
    };
  }
  function map() {
    const w = canvas.width, h = canvas.height, unit = Math.min(w / 360, h / 180);
    return (p) => ({
      x: w / 2 + Math.atan2(p[1], p[0]) / DEG * unit, y: h / 2 - Math.atan2(p[2], Math.hypot(p[0], p[1])) / DEG * unit, seen: true,
    });
  }
  function line(points, to, stroke, width) {
    pen.strokeStyle = stroke; pen.lineWidth = width; pen.beginPath();
    let old = null;
    for (const point of points) {
      const at = to(point);
      if (old && old.seen && at.seen && Math.abs(at.x - old.x) < canvas.width / 2) { pen.moveTo(old.x, old.y); pen.lineTo(at.x, at.y); }
      old = at;
    }
    pen.stroke();
  }
  function footprint(p) { // where the satellite is at its least elevation
    const high = Math.hypot(...p), e = data.elevation * DEG, angle = Math.acos(R * Math.cos(e) / high) - e;
    const up = p.map((x) => x / high), side = Math.hypot(up[0], up[1]) > 1e-6 ? [-up[1], up[0], 0] : [1, 0, 0];
    const long = Math.hypot(...side), a = side.map((x) => x / long);
    const b = [up[1] * a[2] - up[2] * a[1], up[2] * a[0] - up[0] * a[2], up[0] * a[1] - up[1] * a[0]];
    return Array.from({ length: 73 }, (_, n) => {
      const c = Math.cos(n * 5 * DEG) * Math.sin(angle), s = Math.sin(n * 5 * DEG) * Math.sin(angle);
      return up.map((x, i) => R * (x * Math.cos(angle) + a[i] * c + b[i] * s));
    });
  }
  function draw() {
    const to = view.value === "globe" ? globe() : map(), dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const ink = dark ? "#9aa5b8" : "#5b6575";
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (view.value === "globe") {
      pen.strokeStyle = ink; pen.lineWidth = 1; pen.beginPath();
      pen.arc(canvas.width / 2, canvas.height / 2, R / (data.radius / (Math.min(canvas.width, canvas.height) / 2.06)), 0, 7); pen.stroke();
    }
    for (const part of shore) line(part, to, ink, 1);
    let route = data.routes[0];
    for (const one of data.routes) if (one[0] <= time) route = one;
    const nodes = route[1];
    for (let n = 0; n < count; n++) {
      const at = to(position(n, time));
      if (!at.seen) continue;
      pen.fillStyle = "#009E73"; pen.fillRect(at.x - 1.5, at.y - 1.5, 3, 3);
    }
    if (every.checked && data.elevation !== null) {
      for (let n = 0; n < count; n++) line(footprint(position(n, time)), to, "#E69F0090", 1);
    }
    if (nodes.length) {
      const spots = nodes.map((n) => n < count ? position(n, time) : sites[2 + n - count].at);
      for (const n of [0, nodes.length - 1]) if (nodes[n] < count && data.elevation !== null) line(footprint(spots[n]), to, "#E69F00", 1.5);
      line([sites[0].at, ...spots, data.ends[route[2]].map((x) => x)], to, "#D55E00", 2.5);
    }
    pen.font = "600 13px system-ui, sans-serif"; pen.textAlign = "center";
    for (const site of sites) {
      const at = to(site.at);
      if (!at.seen) continue;
      pen.fillStyle = "#D55E00"; pen.beginPath(); pen.arc(at.x, at.y, 4, 0, 7); pen.fill();
      pen.fillStyle = dark ? "#e8ecf3" : "#1c2330"; pen.fillText(site.name, at.x, at.y - 9);
    }
    const delay = data.delays[Math.min(data.delays.length - 1, Math.round(time / data.step))];
    said.textContent = `${time.toFixed(1)} s: ` + (nodes.length && delay !== null
      ? `${delay.toFixed(2)} ms one way, ${nodes.length + 1} hops` : "no way");
    slider.value = time;
  }
  function tick(now) {
    if (!running) return;
    if (before !== null) time = (time + (now - before) / 1000 * data.speed) % data.duration;
    before = now; draw(); requestAnimationFrame(tick);
  }
  data.ends = data.ends.map(([lon, lat]) => onGround(lon, lat));
  play.onclick = () => { running = !running; before = null; play.textContent = running ? "Pause" : "Play"; if (running) requestAnimationFrame(tick); };
  slider.oninput = () => { time = Number(slider.value); draw(); };
  view.onchange = every.onchange = draw;
  draw();
})();

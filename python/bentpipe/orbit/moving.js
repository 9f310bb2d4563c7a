// The moving picture: satellites, their links, the way and what is below, on a globe or a map. All data is in the page.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("orbit-data").textContent);
  const canvas = document.getElementById("orbit-canvas"), pen = canvas.getContext("2d");
  const slider = document.getElementById("orbit-time"), said = document.getElementById("orbit-said");
  const every = document.getElementById("orbit-all"), linked = document.getElementById("orbit-links");
  const play = document.getElementById("orbit-play"), view = document.getElementById("orbit-view");
  const bytes = Uint8Array.from(atob(data.positions), (c) => c.charCodeAt(0));
  const all = new Int16Array(bytes.buffer), count = data.satellites, R = 6378.137, LOWEST = R + 80;
  const DEG = Math.PI / 180;
  const shore = data.coast.map((line) => line.map(([lon, lat]) => onGround(lon, lat)));
  const sites = data.sites.map(([name, lon, lat]) => ({ name, at: onGround(lon, lat) }));
  let time = 0, running = false, before = null, wide = 0, high = 0, paper = false;

  function onGround(lon, lat) {
    return [R * Math.cos(lat * DEG) * Math.cos(lon * DEG), R * Math.cos(lat * DEG) * Math.sin(lon * DEG), R * Math.sin(lat * DEG)];
  }
  function position(n, t) { // between two frames on the way between, at the height of both
    const frames = data.frames, last = frames.length - 1;
    let k = 0;
    while (k < last - 1 && frames[k + 1] <= t) k++;
    const next = Math.min(k + 1, last), part = next > k ? Math.min(1, (t - frames[k]) / (frames[next] - frames[k])) : 0;
    const a = (k * count + n) * 3, b = (next * count + n) * 3, p = [0, 1, 2].map((i) => all[a + i] + (all[b + i] - all[a + i]) * part);
    const above = (1 - part) * Math.hypot(all[a], all[a + 1], all[a + 2]) + part * Math.hypot(all[b], all[b + 1], all[b + 2]);
    const scale = data.scale * above / Math.hypot(...p);
    return p.map((x) => x * scale);
  }
  const middle = (() => { // the globe looks at the middle of the first way
    const nodes = (data.routes.find((one) => one[1].length) || [0, []])[1].filter((n) => n < count);
    const points = [sites[0].at, sites[1].at, ...nodes.map((n) => position(n, 0))];
    const m = [0, 1, 2].map((i) => points.reduce((sum, point) => sum + point[i], 0)), flat = Math.hypot(m[0], m[1]);
    const aside = data.radius > 3 * R ? 1.1 : 0; // what is far out is seen from the side
    return { lon: Math.atan2(m[1], m[0]) - aside, lat: Math.max(-1, Math.min(1, Math.atan2(m[2], flat))) };
  })();
  function ink(name, printed) { return paper ? printed : getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function fit() { // as wide as the page, with the pixels that the screen has
    const round = view.value === "globe", ratio = window.devicePixelRatio || 1;
    wide = Math.min(900, canvas.parentElement.clientWidth) || 900;
    high = Math.round(round ? Math.min(560, wide) : wide / 2);
    canvas.style.width = `${wide}px`; canvas.style.height = `${high}px`;
    canvas.width = Math.round(wide * ratio); canvas.height = Math.round(high * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  function globe() {
    const size = data.radius / (Math.min(wide, high) / 2.06);
    const [sl, cl, sp, cp] = [Math.sin(middle.lon), Math.cos(middle.lon), Math.sin(middle.lat), Math.cos(middle.lat)];
    return (p) => {
      const east = -sl * p[0] + cl * p[1], out = cl * p[0] + sl * p[1];
      const north = cp * p[2] - sp * out, near = cp * out + sp * p[2];
      return { x: wide / 2 + east / size, y: high / 2 - north / size, seen: near > 0 || east * east + north * north > R * R };
    };
  }
  function map() {
    const unit = Math.min(wide / 360, high / 180);
    const to = (p) => ({
      x: wide / 2 + Math.atan2(p[1], p[0]) / DEG * unit, y: high / 2 - Math.atan2(p[2], Math.hypot(p[0], p[1])) / DEG * unit, seen: true,
    });
    return Object.assign(to, { around: 360 * unit });
  }
  function line(points, to, stroke, width) {
    pen.strokeStyle = stroke; pen.lineWidth = width; pen.beginPath();
    let old = null;
    for (const point of points) {
      const at = to(point);
      if (old && old.seen && at.seen) {
        const turn = to.around && Math.abs(at.x - old.x) > to.around / 2 ? Math.sign(old.x - at.x) * to.around : 0; // over the edge
        pen.moveTo(old.x, old.y); pen.lineTo(at.x + turn, at.y);
        if (turn) { pen.moveTo(old.x - turn, old.y); pen.lineTo(at.x, at.y); }
      }
      old = at;
    }
    pen.stroke();
  }
  function along(points) { // straight lines in space are curves on a map
    const found = [points[0]];
    for (let n = 1; n < points.length; n++) {
      const a = points[n - 1], b = points[n];
      for (let part = 1; part <= 12; part++) found.push(a.map((x, i) => x + (b[i] - x) * part / 12));
    }
    return found;
  }
  function footprint(p) { // where the satellite is within reach
    const far = Math.hypot(...p), e = data.elevation * DEG;
    const angle = data.elevation !== null ? Math.acos(R * Math.cos(e) / far) - e
      : Math.acos(Math.min(1, (R * R + far * far - data.slant * data.slant) / (2 * R * far)));
    const up = p.map((x) => x / far), side = Math.hypot(up[0], up[1]) > 1e-6 ? [-up[1], up[0], 0] : [1, 0, 0];
    const long = Math.hypot(...side), a = side.map((x) => x / long);
    const b = [up[1] * a[2] - up[2] * a[1], up[2] * a[0] - up[0] * a[2], up[0] * a[1] - up[1] * a[0]];
    return Array.from({ length: 73 }, (_, n) => {
      const c = Math.cos(n * 5 * DEG) * Math.sin(angle), s = Math.sin(n * 5 * DEG) * Math.sin(angle);
      return up.map((x, i) => R * (x * Math.cos(angle) + a[i] * c + b[i] * s));
    });
  }
  function sees(a, b, n, m) { // whether two linked satellites see each other now, as the engine has it
    if (Math.hypot(a[0] + b[0], a[1] + b[1], a[2] + b[2]) < 2 * LOWEST) return false;
    if (data.within === null || Math.floor(n / data.plane) === Math.floor(m / data.plane)) return true;
    return [a, b].every((p) => Math.abs(p[2]) <= Math.sin(data.within * DEG) * Math.hypot(...p));
  }
  function draw() {
    fit();
    const round = view.value === "globe", to = round ? globe() : map(), soft = ink("--soft", "#444c58"), text = ink("--ink", "#000000");
    pen.strokeStyle = soft; pen.lineWidth = 1;
    if (round) {
      pen.beginPath(); pen.arc(wide / 2, high / 2, R / (data.radius / (Math.min(wide, high) / 2.06)), 0, 7); pen.stroke();
    } else pen.strokeRect(0.5, 0.5, wide - 1, high - 1);
    for (const part of shore) line(part, to, soft, round ? 1 : 0.8);
    let route = data.routes[0];
    for (const one of data.routes) if (one[0] <= time) route = one;
    const nodes = route[1], sky = Array.from({ length: count }, (_, n) => position(n, time));
    if (linked && linked.checked) {
      for (const [n, m] of data.links) if (sees(sky[n], sky[m], n, m)) line(round ? [sky[n], sky[m]] : along([sky[n], sky[m]]), to, "#56B4E9", 0.7);
    }
    if (every && every.checked) for (const one of sky) line(footprint(one), to, "#E69F00A0", 1);
    const dot = wide < 500 ? 2 : 3;
    pen.fillStyle = "#009E73";
    for (const one of sky) {
      const at = to(one);
      if (at.seen) pen.fillRect(at.x - dot / 2, at.y - dot / 2, dot, dot);
    }
    if (nodes.length) {
      const spots = nodes.map((n) => n < count ? sky[n] : sites[2 + n - count].at);
      for (const n of [0, nodes.length - 1]) if (nodes[n] < count) line(footprint(spots[n]), to, "#E69F00", 1.5);
      line(along([sites[0].at, ...spots, data.ends[route[2]]]), to, "#D55E00", 2.5);
    }
    pen.font = `600 ${wide < 500 ? 11 : 13}px system-ui, sans-serif`; pen.textAlign = "center";
    const south = Math.min(...sites.map((site) => site.at[2]));
    for (const site of sites) {
      const at = to(site.at);
      if (!at.seen) continue;
      pen.fillStyle = "#D55E00"; pen.beginPath(); pen.arc(at.x, at.y, 4, 0, 7); pen.fill();
      const half = pen.measureText(site.name).width / 2;
      pen.fillStyle = text;
      pen.fillText(site.name, Math.max(half, Math.min(wide - half, at.x)), at.y + (site.at[2] === south ? 19 : -9));
    }
    const delay = data.delays[Math.min(data.delays.length - 1, Math.round(time / data.step))];
    said.textContent = `${time.toFixed(1)} s: ` + (nodes.length && delay !== null
      ? `${delay.toFixed(2)} ms one way, ${nodes.length + 1} hops` : "no route");
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
  for (const one of [view, every, linked]) if (one) one.onchange = draw;
  canvas.onpointermove = (event) => { // a globe is turned by drawing at it
    if (!event.buttons || view.value !== "globe") return;
    const angle = 2.06 * data.radius / R / Math.min(wide, high);
    middle.lon -= event.movementX * angle;
    middle.lat = Math.max(-1.5, Math.min(1.5, middle.lat + event.movementY * angle));
    draw();
  };
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  for (const [name, now] of [["beforeprint", true], ["afterprint", false]]) window.addEventListener(name, () => { paper = now; draw(); });
  draw();
})();

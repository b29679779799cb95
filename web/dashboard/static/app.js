"use strict";
// Everything works without this script, but: times in the viewer's zone, live pages, keys, the theme.
(() => {
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("skiplane", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const find = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);
  const tell = (text) => { byId("told").textContent = text; };

  // Times
  const zoned = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });
  const zoneOf = (at) => (zone.formatToParts(at).find((part) => part.type === "timeZoneName") || {}).value || "";
  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const duration = (seconds) => {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    const [size, name, small, smallName] = units.find((unit) => seconds >= unit[0]);
    const rest = Math.floor((seconds % size) / small);
    return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${smallName}` : ""}`;
  };
  const showTime = (element) => {
    const at = new Date(element.getAttribute("datetime"));
    if (Number.isNaN(at.getTime())) return;
    const kind = element.dataset.when;
    if (kind === "ago") {
      const seconds = (Date.now() - at.getTime()) / 1000;
      element.textContent = Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
      const utc = element.title.slice(0, 23);
      element.title = `${utc} · ${zoned.format(at)} ${zoneOf(at)}`;
    } else {
      element.textContent = kind === "clock" ? clock.format(at) : zoned.format(at);
    }
  };
  const showTimes = (root) => find("time[data-when]", root).forEach(showTime);

  // Fields for an instant: text with an offset is what is sent; a picker in the viewer's zone fills it.
  const two = (number) => String(number).padStart(2, "0");
  const pickable = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const makePicker = (field) => {
    const picker = document.createElement("input");
    picker.type = "datetime-local";
    picker.step = "1";
    picker.id = field.id;
    picker.title = `Your time zone: ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
    const first = field.value;
    const at = new Date(first);
    if (first && Number.isNaN(at.getTime())) return;
    if (first) picker.value = pickable(at);
    const shown = picker.value;
    field.type = "hidden";
    field.removeAttribute("id");
    field.after(picker);
    // What was not touched is sent back as it came, to the microsecond.
    const store = () => {
      field.value = picker.value === shown ? first : picker.value ? new Date(picker.value).toISOString() : "";
    };
    picker.addEventListener("input", store);
    picker.addEventListener("change", store);
  };

  // Theme
  const themes = ["auto", "light", "dark"];
  const theme = byId("theme");
  const showTheme = () => {
    const now = document.documentElement.dataset.theme || "auto";
    theme.lastElementChild.textContent = `Theme: ${now}`;
    theme.title = `Theme: ${now}`;
  };
  if (theme) {
    theme.hidden = false;
    showTheme();
    theme.addEventListener("click", () => {
      const now = themes[(themes.indexOf(document.documentElement.dataset.theme || "auto") + 1) % themes.length];
      if (now === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = now;
      document.cookie = `skiplane_theme=${now === "auto" ? "" : now}; Path=/ui; SameSite=Strict; Max-Age=${now === "auto" ? 0 : 31536000}`;
      showTheme();
      tell(`Theme: ${now}`);
    });
  }

  // Live pages: what is marked is fetched anew when something changed, and now and then.
  const live = byId("live");
  const every = Number(document.body.dataset.refresh || 0) * 1000;
  const LEAST = 1500;
  let looked = Date.now();
  let asking = false;
  let wanted = false;
  let source = null;
  let paused = false;
  const busy = (region) => {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && region.contains(selection.anchorNode)) return true;
    // A form that somebody fills in, or a menu that is open, stays as it is.
    if (region.querySelector("details.act[open]")) return true;
    const active = document.activeElement;
    return region.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName);
  };
  const addressOf = (element) => (element && element.closest("[data-live]") ? element.getAttribute("href") : null);
  const swap = (fresh) => {
    const focused = addressOf(document.activeElement);
    for (const region of find("[data-live]")) {
      const next = fresh.getElementById(region.id);
      if (!next || busy(region)) continue;
      find("details[open][id]", region).forEach((open) => {
        const same = fresh.getElementById(open.id);
        if (same) same.open = true;
      });
      const scrolled = find("pre", region).map((pre) => [pre.scrollTop, pre.scrollLeft]);
      showTimes(next);
      if (next.isEqualNode(region)) continue;
      const place = document.adoptNode(next);
      region.replaceWith(place);
      find("pre", place).forEach((pre, index) => { if (scrolled[index]) [pre.scrollTop, pre.scrollLeft] = scrolled[index]; });
      ready(place);
      if (place.querySelector("#picture")) showView();
    }
    if (focused && !addressOf(document.activeElement)) {
      const again = find("[data-live] a[href]").find((link) => link.getAttribute("href") === focused);
      if (again) again.focus({ preventScroll: true });
    }
  };
  const refresh = async () => {
    if (asking) { wanted = true; return; }
    asking = true;
    looked = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { "X-Skiplane-Fragment": "1" }, credentials: "same-origin" });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.ok) {
        const text = await answer.text();
        swap(new DOMParser().parseFromString(policy.createHTML(text), "text/html"));
        live.classList.remove("beat");
        requestAnimationFrame(() => live.classList.add("beat"));
      }
    } catch (error) {
      // The server is away for a moment; the next look tells.
    } finally {
      asking = false;
      if (wanted) { wanted = false; schedule(); }
    }
  };
  let timer = 0;
  const schedule = () => {
    if (timer || paused || document.hidden) return;
    timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(0, looked + LEAST - Date.now()));
  };
  const listen = () => {
    if (source || paused || document.hidden || !every) return;
    source = new EventSource("/ui/events");
    source.addEventListener("changed", schedule);
    // What happened between the page's making and the stream's start is told by nobody.
    source.addEventListener("open", schedule);
  };
  const deafen = () => { if (source) { source.close(); source = null; } };
  const showLive = () => {
    live.setAttribute("aria-pressed", String(!paused));
    live.lastElementChild.textContent = paused ? "Paused" : "Live";
  };
  const toggleLive = () => {
    paused = !paused;
    showLive();
    tell(paused ? "The page stands still." : "The page is live.");
    if (paused) deafen(); else { listen(); refresh(); }
  };
  if (live && every) {
    live.hidden = false;
    showLive();
    live.addEventListener("click", toggleLive);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) deafen(); else { listen(); if (!paused) refresh(); }
    });
    addEventListener("pagehide", deafen);
    listen();
    setInterval(() => {
      if (!paused && !document.hidden && Date.now() - looked >= every) refresh();
    }, 1000);
  }
  setInterval(() => { if (!document.hidden) find('time[data-when="ago"]').forEach(showTime); }, 1000);

  // Small things inside what may be replaced
  const ready = (root) => {
    find("button[data-copy]", root).forEach((button) => {
      if (!navigator.clipboard) return;
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
        tell("Copied");
      });
    });
  };

  // The picture of a workflow: what is seen of it is its viewBox.
  const graph = byId("graph");
  const picture = () => byId("picture");
  let view = null;
  const whole = (svg) => {
    const box = svg.dataset.whole || svg.getAttribute("viewBox");
    svg.dataset.whole = box;
    return box.split(" ").map(Number);
  };
  const showView = () => {
    const svg = picture();
    if (!svg) return;
    whole(svg);
    if (view) svg.setAttribute("height", graph.dataset.height || svg.getAttribute("height"));
    graph.dataset.height = svg.getAttribute("height");
    if (view) svg.setAttribute("viewBox", view.map((n) => n.toFixed(1)).join(" "));
  };
  const fit = () => {
    const [x, y, w, h] = whole(picture());
    // Never larger than life: a small workflow stays as it is.
    const wide = Math.max(w, graph.clientWidth, h * graph.clientWidth / picture().clientHeight);
    const high = wide * picture().clientHeight / graph.clientWidth;
    view = [x - (wide - w) / 2, y - (high - h) / 2, wide, high];
    showView();
  };
  const zoom = (by, atX = 0.5, atY = 0.5) => {
    const [x, y, w, h] = view;
    const size = Math.min(Math.max(w * by, 120), 200000);
    const step = size / w;
    view = [x + w * atX * (1 - step), y + h * atY * (1 - step), size, h * step];
    showView();
  };
  const pan = (dx, dy) => { view = [view[0] + dx, view[1] + dy, view[2], view[3]]; showView(); };
  if (graph && picture()) {
    graph.classList.add("zoomed");
    const buttons = document.querySelector(".zoom");
    buttons.hidden = false;
    let touched = false;
    const begin = () => {
      const [x, y, w, h] = whole(picture());
      const room = graph.clientWidth;
      picture().setAttribute("height", Math.round(Math.min(480, Math.max(200, h * Math.min(1, room / w) + 40))));
      fit();
      // What would be too small to read begins at its left.
      if (view[2] > 1.7 * room) {
        view = [x, y + h / 2 - 0.85 * picture().clientHeight, 1.7 * room, 1.7 * picture().clientHeight];
        showView();
      }
    };
    begin();
    // A window of another size begins anew, unless somebody has chosen what to look at.
    addEventListener("resize", () => { if (!touched) { delete graph.dataset.height; view = null; begin(); } });
    ["pointerdown", "wheel", "keydown"].forEach((kind) => graph.addEventListener(kind, () => { touched = true; }, { passive: true }));
    buttons.addEventListener("click", () => { touched = true; });
    buttons.addEventListener("click", (event) => {
      const what = event.target.dataset.zoom;
      if (what === "fit") fit(); else if (what) zoom(what === "in" ? 0.8 : 1.25);
    });
    const scale = () => Math.max(view[2] / graph.clientWidth, view[3] / picture().clientHeight);
    graph.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== graph) return;
      event.preventDefault();
      const box = picture().getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.12 : 0.89, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    }, { passive: false });
    let held = null;
    graph.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, moved: false }; });
    graph.addEventListener("pointermove", (event) => {
      if (!held || !event.buttons) return;
      const dx = event.clientX - held.x;
      const dy = event.clientY - held.y;
      if (!held.moved && Math.hypot(dx, dy) < 4) return;
      if (!held.moved) graph.setPointerCapture(event.pointerId);
      held = { x: event.clientX, y: event.clientY, moved: true };
      graph.classList.add("held");
      pan(-dx * scale(), -dy * scale());
    });
    const let_go = () => { graph.classList.remove("held"); };
    graph.addEventListener("pointerup", let_go);
    graph.addEventListener("pointercancel", let_go);
    graph.addEventListener("click", (event) => { if (held && held.moved) event.preventDefault(); held = null; }, true);
    graph.addEventListener("dragstart", (event) => event.preventDefault());
    graph.addEventListener("keydown", (event) => {
      if (event.target !== graph) return;
      const far = 60 * scale();
      const moves = { ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, -far], ArrowDown: [0, far] };
      if (moves[event.key]) pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") zoom(0.8);
      else if (event.key === "-") zoom(1.25);
      else if (event.key === "0") fit();
      else return;
      event.preventDefault();
    });
  }

  // The editor of a schedule: shows when it would fire, while it is written.
  const preview = byId("preview");
  if (preview && preview.dataset.source) {
    let soon = 0;
    let turn = 0;
    const look = async () => {
      const mine = ++turn;
      const names = ["cron_expression", "timezone", "start_at", "end_at"];
      const given = new URLSearchParams();
      for (const name of names) {
        const field = document.querySelector(`[name="${name}"]`);
        if (field && field.value) given.set(name, field.value);
      }
      const answer = await fetch(`${preview.dataset.source}?${given}`, { headers: { "X-Skiplane-Fragment": "1" } });
      if (!answer.ok || mine !== turn) return;
      const fresh = new DOMParser().parseFromString(policy.createHTML(await answer.text()), "text/html").getElementById("preview");
      showTimes(fresh);
      preview.replaceChildren(...Array.from(document.adoptNode(fresh).childNodes));
    };
    preview.closest("form").addEventListener("input", (event) => {
      if (event.target.name === "payload") return;
      clearTimeout(soon);
      soon = setTimeout(() => look().catch(() => {}), 250);
    });
  }

  // Keys
  const places = { o: "/ui", t: "/ui/tasks", d: "/ui/dead-letters", f: "/ui/failures", q: "/ui/queues", w: "/ui/workers", s: "/ui/schedules", p: "/ui/workflows" };
  let goTo = 0;
  const move = (step) => {
    const rows = find("[data-row]");
    const place = rows.indexOf(document.activeElement);
    const next = place < 0 ? (step > 0 ? 0 : rows.length - 1) : place + step;
    if (rows[next]) rows[next].focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      find("details.act[open], details.account[open]").forEach((open) => { open.open = false; open.querySelector("summary").focus(); });
      if (event.target.id === "search") event.target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (Date.now() - goTo < 1500 && places[event.key]) {
      if (find(`.side a[href="${places[event.key]}"]`).length) location.href = places[event.key];
      goTo = 0;
      return;
    }
    const dialog = byId("keys");
    if (!dialog) return;
    if (event.key === "/") byId("search").focus();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "g") goTo = Date.now();
    else if (event.key === "l" && every) toggleLive();
    else if (event.key === "?") dialog.showModal();
    else return;
    event.preventDefault();
  });
  // One menu at a time.
  document.addEventListener("click", (event) => {
    find("details.act[open], details.account[open]").forEach((open) => { if (!open.contains(event.target)) open.open = false; });
  });

  // Whoever came by a link from elsewhere sent no cookie along: with one, there is no need to sign in.
  const sent = document.querySelector('form[action="/ui/sign-in"] input[name="next"]');
  if (sent && document.referrer && !document.referrer.startsWith(location.origin)) {
    fetch("/ui/sign-in", { credentials: "same-origin" }).then((answer) => {
      if (answer.redirected && !answer.url.includes("/ui/sign-in")) location.replace(sent.value);
    }).catch(() => {});
  }

  showTimes(document);
  find("input[data-instant]").forEach(makePicker);
  ready(document);
})();

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

// The search of a site that is opened as files, without a server or a network:
// browsers allow no workers there. The worker's script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = frame.contentDocument.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = failed;
          frame.contentDocument.body.append(script);
        });
      inner.importScripts = (...sources) => Promise.all(sources.map(load));
      inner.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      load(new URL(url, location.href).href).then(() => {
        this.send = (data) =>
          inner.dispatchEvent(new inner.MessageEvent("message", { data }));
        this.waiting.forEach(this.send);
      });
    }

    postMessage(data) {
      if (this.send) setTimeout(() => this.send(data));
      else this.waiting.push(data);
    }
  };
}

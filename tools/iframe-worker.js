// Runs the site's search when its pages are opened as files. Browsers start no Worker for file: pages,
// so this class runs the worker's script in a hidden frame instead. Material for MkDocs would otherwise
// load such a class from another host.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.waiting = [];
      const script = new URL(url, location.href).href;
      document.addEventListener("DOMContentLoaded", () => this.start(script));
      if (document.readyState !== "loading") this.start(script);
    }
    start(script) {
      if (this.frame) return;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", {data});
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const element = inner.document.createElement("script");
      element.src = script;
      element.addEventListener("load", () => {
        this.loaded = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
      inner.document.body.append(element);
    }
    postMessage(data) {
      const inner = this.frame && this.frame.contentWindow;
      if (this.loaded) inner.dispatchEvent(new inner.MessageEvent("message", {data}));
      else this.waiting.push(data);
    }
    terminate() {
      if (this.frame) this.frame.remove();
    }
  };
}

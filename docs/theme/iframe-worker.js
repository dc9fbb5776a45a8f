/* Search without a server. A browser starts no worker from a file, so the search runs in a hidden frame instead,
   which looks like a worker to the page. Over HTTP nothing changes. */
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = []; // until the script is there
      const frame = document.createElement('iframe');
      frame.hidden = true;
      frame.title = 'Search';
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = data => setTimeout(() => this.dispatchEvent(new MessageEvent('message', { data })));
      const script = frame.contentDocument.createElement('script');
      script.src = url;
      script.onload = () => {
        for (const data of this.waiting.splice(0)) this.hand(data);
        this.waiting = null;
      };
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data); else this.hand(data);
    }

    hand(data) {
      setTimeout(() => this.inside.dispatchEvent(new MessageEvent('message', { data })));
    }
  };
}

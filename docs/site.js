// The search looks in a Worker, which no browser lets a page of file:// have: there a frame takes its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = this.onerror = null
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => setTimeout(() => this.tell("message", data))
      inside.addEventListener("error", () => this.tell("error"))
      const script = inside.document.createElement("script")
      script.src = new URL(url, location)
      script.onload = () => {
        for (const data of this.waiting) this.hand(data)
        this.waiting = null
      }
      script.onerror = () => this.tell("error")
      inside.document.body.append(script)
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else setTimeout(() => this.hand(data))
    }

    terminate() {
      this.frame.remove()
    }

    hand(data) {
      const inside = this.frame.contentWindow
      if (inside) inside.dispatchEvent(new inside.MessageEvent("message", { data }))
    }

    tell(type, data) {
      const event = new MessageEvent(type, { data })
      this["on" + type]?.(event)
      this.dispatchEvent(event)
    }
  }
}

import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../wait.js'
import { apiCall } from './api-call.js'
import { ConsoleClient } from './console-client.js'

const pauseMs = 200

/** A console that continues after the loss of its socket, as in the panel. */
export class ResumingConsole {
  client!: ConsoleClient
  /** Times from the loss of a socket until the console continued. */
  readonly gapsMs: number[] = []
  readonly endings: number[] = []
  #base = 0
  #resume = ''
  #stopped = false

  private constructor(
    private readonly url: string,
    private readonly key: string,
    private readonly container: string,
  ) {}

  static async open(url: string, key: string, container: string): Promise<ResumingConsole> {
    const made = new ResumingConsole(url, key, container)
    await made.#connect()
    void made.#follow()
    return made
  }

  stop(): void {
    this.#stopped = true
    this.client.socket.close(1000)
  }

  /** Types a line and resolves when the guest has answered it. */
  async answers(word: string): Promise<void> {
    this.client.type(`echo ${word}-$((40 + 2))\n`)
    await this.client.shows(new RegExp(`${word}-42`))
  }

  async #follow(): Promise<void> {
    while (!this.#stopped) {
      await waitFor(() => this.client.closed)
      if (this.#stopped) return
      const lostMs = performance.now()
      this.endings.push(this.client.closed!.code)
      this.#base += this.client.received
      await this.#again()
      this.gapsMs.push(performance.now() - lostMs)
    }
  }

  async #again(): Promise<void> {
    for (let isOpen = false; !isOpen && !this.#stopped;) {
      await delay(pauseMs)
      isOpen = await this.#connect().then(
        () => true,
        () => false,
      )
    }
  }

  async #connect(): Promise<void> {
    const headers = { 'x-api-key': this.key, 'content-type': 'application/json' }
    const body = JSON.stringify({ container_name: this.container })
    const reply = await apiCall(this.url, ['POST', '/api/v1/ssh-ticket'], { headers, body })
    const { ticket } = reply.body.data as { ticket: string }
    const resume = this.#resume === '' ? {} : { resume: this.#resume, received: String(this.#base) }
    const client = ConsoleClient.open(`${this.url}/api/v1/ssh`, {
      protocols: ['berth.console.v1', `berth-ticket.${ticket}`],
      query: { container: this.container, ...resume },
    })
    const status = await client.ready()
    if (this.#resume !== '' && status.state !== 'resumed') throw new Error(`not resumed: ${status.state}`)
    this.#base = status.offset
    this.#resume = status.resume
    this.client = client
  }
}

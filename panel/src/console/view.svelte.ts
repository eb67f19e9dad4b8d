import { api, ask } from '../api/client.ts'
import { ConsoleLink, type LinkParts, type LinkState } from './link.ts'

type ViewParts = Pick<LinkParts, 'container' | 'mode' | 'size' | 'show' | 'restart'> & {
  /** Called whenever a connection has opened, including reconnections. */
  onOpen(): void
}

/** The connection and the messages of one console. Create it during the initialization of a component. */
export class ConsoleView {
  state = $state.raw<LinkState>({ is: 'connecting' })
  /** Seconds until the console ends if there is no input. 0: no warning is shown. */
  warning = $state(0)
  #link: ConsoleLink | undefined

  constructor(private readonly parts: ViewParts) {
    $effect(() => {
      const { hurry, lose } = this
      window.addEventListener('online', hurry)
      window.addEventListener('offline', lose)
      return () => {
        window.removeEventListener('online', hurry)
        window.removeEventListener('offline', lose)
        this.#link?.leave()
      }
    })
  }

  /** Opens the console. Call it when the element that shows the console exists. */
  start(): void {
    const { container, mode } = this.parts
    this.#link = new ConsoleLink({
      ...this.parts,
      server: location.origin.replace(/^http/, 'ws'),
      ticket: () => ticketFor(container, mode),
      onState: (state) => {
        this.state = state
        if (state.is === 'open') this.parts.onOpen()
      },
      onWarning: (seconds) => (this.warning = seconds),
      memory: memoryOf(container, mode),
    })
  }

  connect = (): void => this.#link?.connect()
  hurry = (): void => this.#link?.hurry()
  lose = (): void => this.#link?.lose()
  end = (): void => this.#link?.end()

  send(bytes: Uint8Array): void {
    this.#link?.send(bytes)
  }

  resize(size: ReturnType<ViewParts['size']>): void {
    this.#link?.resize(size)
  }
}

async function ticketFor(container: string, mode: LinkParts['mode']): Promise<string> {
  const body = { container }
  const made =
    mode === 'vnc'
      ? await ask(() => api.POST('/vnc-ticket', { body }))
      : await ask(() => api.POST('/ssh-ticket', { body }))
  return made.ticket
}

/** Keeps the token that continues this tab's console. The token is valid only with a ticket, and for the same login. */
function memoryOf(container: string, mode: LinkParts['mode']): LinkParts['memory'] {
  const key = `berth.console.${container}.${mode}`
  return {
    get: () => sessionStorage.getItem(key) ?? '',
    set: (resume) => (resume === '' ? sessionStorage.removeItem(key) : sessionStorage.setItem(key, resume)),
  }
}

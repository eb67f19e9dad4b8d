import { api, ask, send, setCallerHooks } from '../api/client.ts'
import type { Session } from '../api/types.ts'
import { asFailure } from '../api/failure.ts'

/** A question to the user that holds requests until it is answered. */
interface Pending {
  readonly answered: Promise<boolean>
  answer(value: boolean): void
}

/** The logged-in user. The credential is a cookie that no script can read. */
class CurrentSession {
  data = $state.raw<Session | undefined>()
  /** True once it is known whether somebody is logged in. */
  isKnown = $state(false)
  /** The session ended while a page was open: a new login continues it. */
  hasEnded = $state(false)
  /** A request requires the password or a code again. */
  wantsProof = $state(false)
  #login: Pending | undefined
  #proof: Pending | undefined

  async load(): Promise<void> {
    setCallerHooks({
      csrf: () => this.data?.csrf ?? '',
      loggedOut: () => this.#whenLoggedIn(),
      confirm: () => this.#whenProven(),
    })
    try {
      await this.refresh()
    } catch (thrown) {
      // Only a 401 means that nobody is logged in; any other failure is a fault of the gateway or the network.
      if (asFailure(thrown).about.status !== 401) throw thrown
      this.data = undefined
    } finally {
      this.isKnown = true
    }
  }

  async refresh(): Promise<void> {
    this.data = await ask(() => api.GET('/session'))
  }

  /** Called after a login. */
  async begin(): Promise<void> {
    await this.refresh()
    this.hasEnded = false
    this.#login?.answer(true)
    this.#login = undefined
  }

  /** Cancels the new login: waiting requests are refused, and the next one asks again. */
  dismiss(): void {
    this.hasEnded = false
    this.#login?.answer(false)
    this.#login = undefined
  }

  async logOut(): Promise<void> {
    await send(() => api.POST('/logout'))
    location.assign('/login')
  }

  /** @param proven whether the password or code was given and correct */
  prove(proven: boolean): void {
    this.wantsProof = false
    this.#proof?.answer(proven)
    this.#proof = undefined
  }

  /** True if the user has a scope, such as `container:power`. */
  may(scope: string): boolean {
    const held = this.data?.scopes ?? []
    const area = `${scope.slice(0, scope.indexOf(':'))}:*`
    return held.some((one) => one === scope || one === '*' || one === area)
  }

  get isAdmin(): boolean {
    return this.data?.kind === 'admin'
  }

  #whenLoggedIn(): Promise<boolean> {
    if (this.data === undefined) return Promise.resolve(false)
    this.hasEnded = true
    this.#login ??= pending()
    return this.#login.answered
  }

  #whenProven(): Promise<boolean> {
    this.wantsProof = true
    this.#proof ??= pending()
    return this.#proof.answered
  }
}

function pending(): Pending {
  let answer: (value: boolean) => void = () => undefined
  const answered = new Promise<boolean>((resolve) => (answer = resolve))
  return { answered, answer }
}

export const session = new CurrentSession()

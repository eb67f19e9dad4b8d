import { api, ask, send, setCallerHooks } from '../api/client.ts'
import type { Session } from '../api/types.ts'
import { asFailure } from '../api/failure.ts'

/** A question to the person at the keyboard that holds requests until it is answered. */
interface Pending {
  readonly answered: Promise<boolean>
  answer(value: boolean): void
}

/** Who is logged in. The credential is a cookie that no script sees. */
class CurrentSession {
  data = $state.raw<Session | undefined>()
  /** Whether it is known yet if somebody is logged in. */
  isKnown = $state(false)
  /** The session ended under an open page: who logs in again goes on. */
  hasEnded = $state(false)
  /** The password, or a code, is wanted again. */
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

  /** Somebody has just logged in. */
  async begin(): Promise<void> {
    await this.refresh()
    this.hasEnded = false
    this.#login?.answer(true)
    this.#login = undefined
  }

  /** Nobody logs in again now: what waits for it is refused, and who asks next is asked again. */
  dismiss(): void {
    this.hasEnded = false
    this.#login?.answer(false)
    this.#login = undefined
  }

  async logOut(): Promise<void> {
    await send(() => api.POST('/logout'))
    location.assign('/login')
  }

  /** @param proven whether the proof was given, and was right */
  prove(proven: boolean): void {
    this.wantsProof = false
    this.#proof?.answer(proven)
    this.#proof = undefined
  }

  /** Whether a scope is held, as `container:power`. */
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

import { api, ask, changesAnswered, send, setCallerHooks } from '../api/client.ts'
import type { Session } from '../api/types.ts'
import { asFailure } from '../api/failure.ts'
import { serverTime } from '../ui/server-time.svelte.ts'
import { forgetUnsaved } from '../ui/unsaved.ts'
import { isSameAccount } from './same-account.ts'

/** A question to the user. The requests that need the answer wait for it. */
interface Pending {
  readonly answered: Promise<boolean>
  answer(value: boolean): void
}

/** The session of the logged-in user. Its credential is a cookie that no script can read. */
class CurrentSession {
  data = $state.raw<Session | undefined>()
  /** True after the panel has found out whether a user is logged in. */
  isKnown = $state(false)
  /** True if the session has ended while a page is open. After a new login, the user continues on this page. */
  hasEnded = $state(false)
  /** True while a request waits until the user confirms the password or a code. */
  wantsProof = $state(false)
  #login: Pending | undefined
  #proof: Pending | undefined

  async load(): Promise<void> {
    setCallerHooks({
      csrf: () => this.data?.csrf ?? '',
      loggedOut: (isRepeated) => this.#whenLoggedIn(isRepeated),
      confirm: () => this.#whenProven(),
    })
    try {
      await this.refresh()
    } catch (thrown) {
      // Only the status 401 means that no user is logged in. Other failures concern the gateway or the network.
      if (asFailure(thrown).about.status !== 401) throw thrown
      this.data = undefined
    } finally {
      this.isKnown = true
    }
  }

  async refresh(): Promise<void> {
    let date: string | null = null
    const data = await ask(async () => {
      const answer = await api.GET('/session')
      date = answer.response.headers.get('date')
      return answer
    })
    serverTime.set(data.time_zone, date)
    serverTime.showIn(data.display_time_zone)
    this.data = data
  }

  /**
   * Continues the requests that wait for a login. If another account has logged in over an open page, reloads the page
   * without them. Call it after the login.
   */
  async begin(): Promise<void> {
    const before = this.hasEnded ? this.data : undefined
    await this.refresh()
    if (before && this.data && !isSameAccount(before, this.data)) {
      forgetUnsaved()
      location.reload()
      return
    }
    this.hasEnded = false
    this.#login?.answer(true)
    this.#login = undefined
  }

  /** Closes the login dialog without a login. Waiting requests fail. The next request opens the dialog again. */
  dismiss(): void {
    this.hasEnded = false
    this.#login?.answer(false)
    this.#login = undefined
  }

  async logOut(): Promise<void> {
    await send(() => api.POST('/logout'))
    forgetUnsaved()
    location.assign('/login')
  }

  /** Closes the prompt for the password or code. @param proven true if the user has entered the right one */
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

  async #whenLoggedIn(isRepeated: boolean): Promise<boolean> {
    if (this.data === undefined) return false
    if (!isRepeated && (await isReplaced())) return true
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

/** Returns true if the refused request used the cookie of a session that a change of the account has replaced. */
async function isReplaced(): Promise<boolean> {
  await changesAnswered()
  return api.GET('/session').then(
    ({ response }) => response.ok,
    () => false,
  )
}

function pending(): Pending {
  let answer: (value: boolean) => void = () => undefined
  const answered = new Promise<boolean>((resolve) => (answer = resolve))
  return { answered, answer }
}

export const session = new CurrentSession()

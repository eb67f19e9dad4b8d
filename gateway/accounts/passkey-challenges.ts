import { hash, randomBytes } from 'node:crypto'
import type { Store } from '../store/store.js'

/** Time in ms in which a browser must answer a challenge. */
export const challengeMs = 5 * 60_000

/**
 * `add`: a new passkey; `login`: a login without a password; `second`: the second step of a login; `confirm`: the
 * confirmation of a logged-in user before sensitive changes.
 */
export type ChallengePurpose = 'add' | 'login' | 'second' | 'confirm'

interface StoredChallenge {
  readonly purpose: ChallengePurpose
  /** 0: any account. */
  readonly accountId: number
}

/**
 * Challenges that browsers sign with a passkey. They are stored under their digest, so that each can be used once, at
 * any gateway. All methods can throw BerthError `store_unavailable`.
 */
export class PasskeyChallenges {
  constructor(private readonly store: Store) {}

  async begin(purpose: ChallengePurpose, accountId = 0): Promise<Uint8Array<ArrayBuffer>> {
    const challenge = new Uint8Array(randomBytes(32))
    const stored: StoredChallenge = { purpose, accountId }
    await this.store.run('store a challenge', (client) =>
      client.set(this.#key(Buffer.from(challenge).toString('base64url')), JSON.stringify(stored), {
        expiration: { type: 'PX', value: challengeMs },
      }),
    )
    return challenge
  }

  /**
   * Uses up the challenge that a browser has signed.
   * @param clientData JSON of the browser in base64url, which contains the challenge
   * @returns the challenge; `undefined`: it is not valid for this purpose and account
   */
  async take(clientData: string, purpose: ChallengePurpose, accountId = 0): Promise<string | undefined> {
    const challenge = challengeIn(clientData)
    if (challenge === undefined) return undefined
    const text = await this.store.run('use a challenge', (client) => client.getDel(this.#key(challenge)))
    const stored = text === null ? undefined : (JSON.parse(text) as StoredChallenge)
    return stored?.purpose === purpose && stored.accountId === accountId ? challenge : undefined
  }

  #key(challenge: string): string {
    return this.store.key('passkey-challenge', hash('sha256', challenge, 'base64url'))
  }
}

function challengeIn(clientData: string): string | undefined {
  try {
    const { challenge } = JSON.parse(Buffer.from(clientData, 'base64url').toString()) as { challenge?: unknown }
    return typeof challenge === 'string' && /^[\w-]{43}$/.test(challenge) ? challenge : undefined
  } catch {
    return undefined
  }
}

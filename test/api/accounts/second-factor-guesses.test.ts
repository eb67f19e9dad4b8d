import { randomBytes } from 'node:crypto'

import { expect } from 'chai'
import fc from 'fast-check'
import { AccountStore } from '../../../gateway/accounts/account-store.js'
import type { AdminAccount } from '../../../gateway/accounts/account-record.js'
import { KnownDevices } from '../../../gateway/accounts/known-devices.js'
import { LoginLimits } from '../../../gateway/accounts/login-limits.js'
import { LoginLog, defaultLoginRetention } from '../../../gateway/accounts/login-log.js'
import { Logins, type LoginPlace } from '../../../gateway/accounts/logins.js'
import { PasskeyChallenges } from '../../../gateway/accounts/passkey-challenges.js'
import { Passkeys } from '../../../gateway/accounts/passkeys.js'
import { Passwords } from '../../../gateway/accounts/passwords.js'
import { PendingLogins } from '../../../gateway/accounts/pending-logins.js'
import { Sessions } from '../../../gateway/accounts/sessions.js'
import { TwoFactor } from '../../../gateway/accounts/two-factor.js'
import { BerthError } from '../../../shared/errors.js'
import { startTestRedis, type TestRedis } from '../../support/gateway/redis.js'

const password = 'correct horse battery'
/** Parameters with which a hash takes a millisecond. The tested limits do not depend on these parameters. */
const cheap = { memoryCost: 64, timeCost: 1, parallelism: 1 } as const
const mostOfPlace = 5
const mostOfStrangers = 30

type Place = 'device' | 'first stranger' | 'second stranger'
type Step = 'right password' | 'wrong password' | 'wrong code' | 'wrong recovery code' | 'complete login'

/** Counts the wrong codes that were checked. Fails if a place, or all unknown devices together, exceed their limit. */
class Guesses {
  readonly #counts = new Map<string, number>()
  #strangers = 0

  forget(from: Place): void {
    for (const kind of ['code', 'recovery']) this.#counts.delete(`${from} ${kind}`)
  }

  note(from: Place, kind: 'code' | 'recovery'): void {
    const count = (this.#counts.get(`${from} ${kind}`) ?? 0) + 1
    this.#counts.set(`${from} ${kind}`, count)
    expect(count, `${kind} from ${from}`).to.be.at.most(mostOfPlace)
    if (kind === 'code' && from !== 'device')
      expect(++this.#strangers, 'codes from unknown devices').to.be.at.most(mostOfStrangers)
  }
}

/** The attacker knows the password, and has a cookie of the owner's device. The accounts are in a real Redis. */
describe('guesses at a second factor', function () {
  let redis: TestRedis
  let parts: ConstructorParameters<typeof Logins>[0]
  let logins: Logins
  let made = 0

  before(async () => {
    redis = await startTestRedis()
    const store = await redis.openStore()
    const secret = randomBytes(32)
    const accounts = new AccountStore(store)
    parts = {
      accounts,
      passwords: new Passwords(cheap),
      sessions: new Sessions(store, accounts),
      pending: new PendingLogins(store),
      limits: new LoginLimits(store),
      devices: new KnownDevices(secret),
      twoFactor: new TwoFactor(secret),
      passkeys: new Passkeys(new PasskeyChallenges(store)),
      log: new LoginLog(store, defaultLoginRetention),
    }
    logins = new Logins(parts)
  })
  after(() => redis.stop())

  /** Creates an account with a second factor, and places from which nobody has tried to log in before. */
  async function makeVictim() {
    const [number, { twoFactor, devices }] = [++made, parts]
    const passwordHash = await parts.passwords.hash(password, { account: 'test', source: '' })
    let codes: string[] = []
    const account = await parts.accounts.create('admin', (id): AdminAccount => {
      const begun = twoFactor.begin(twoFactor.seal(twoFactor.makeSecret(), id), 0)
      codes = begun.codes
      const about = { kind: 'admin', disabled: false, generation: 1, createdAtMs: 0 } as const
      return { ...about, id, username: `victim-${number}`, passwordHash, totp: begun.totp }
    })
    const at = (last: number, deviceCookie?: string): LoginPlace => ({
      address: `10.${number >> 8}.${number & 255}.${last}`,
      userAgent: 'test',
      deviceCookie,
    })
    const places: Record<Place, LoginPlace> = {
      device: at(1, devices.add(undefined, account)),
      'first stranger': at(2),
      'second stranger': at(3),
    }
    return { account, codes, places }
  }

  type Victim = Awaited<ReturnType<typeof makeVictim>>

  const givePassword = async ({ account }: Victim, place: LoginPlace, given: string) => {
    const step = await logins.login({ username: account.username, password: given, keep: false }, place)
    return 'pendingToken' in step ? step.pendingToken : ''
  }

  /** False if the attempt was refused before its code or password was checked. */
  async function isChecked(attempt: Promise<unknown>): Promise<boolean> {
    try {
      await attempt
      return true
    } catch (error) {
      if (!(error instanceof BerthError)) throw error
      return error.code === 'login_failed'
    }
  }

  /** Tries a second factor from this place, in a new login that has already passed the check of the password. */
  const tryCode = async (victim: Victim, place: LoginPlace, given: { code: string } | { recoveryCode: string }) =>
    isChecked(logins.second(await parts.pending.begin(victim.account, false), given, place))

  async function take(victim: Victim, { from, what }: { from: Place; what: Step }, guesses: Guesses): Promise<void> {
    const at = victim.places[from]
    const code = victim.codes.at(-1)
    switch (what) {
      case 'right password':
        return void (await isChecked(givePassword(victim, at, password)))
      case 'wrong password':
        return void (await isChecked(givePassword(victim, at, 'wrong password 1')))
      case 'complete login':
        if (code && (await tryCode(victim, at, { recoveryCode: code }))) guesses.forget(from)
        return void victim.codes.pop()
      case 'wrong code':
        if (await tryCode(victim, at, { code: '000000' })) guesses.note(from, 'code')
        return
      case 'wrong recovery code':
        if (await tryCode(victim, at, { recoveryCode: 'aaaa-aaaa-aaaa-aaaa' })) guesses.note(from, 'recovery')
    }
  }

  it('are limited per device until its next successful login, whatever the sequence of attempts', async () => {
    const place = fc.constantFrom<Place>('device', 'first stranger', 'second stranger')
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom<Step>('wrong code', 'wrong recovery code') },
      { weight: 3, arbitrary: fc.constantFrom<Step>('right password', 'wrong password') },
      { weight: 1, arbitrary: fc.constant<Step>('complete login') },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(place, step), { minLength: 15, maxLength: 40 }), async (steps) => {
        const victim = await makeVictim()
        const guesses = new Guesses()
        for (const [from, what] of steps) await take(victim, { from, what }, guesses)
      }),
      { numRuns: 20 },
    )
  })

  it('stay limited on a known device, even after the right password', async () => {
    const victim = await makeVictim()
    let checked = 0
    for (let n = 0; n < 60; n++) {
      const token = await givePassword(victim, victim.places.device, password)
      if (await isChecked(logins.second(token, { code: '000000' }, victim.places.device))) checked++
    }
    expect(checked).to.equal(mostOfPlace)
  })

  it('are no longer counted separately for a known device after a change of password or second factor', async () => {
    const victim = await makeVictim()
    const { device } = victim.places
    const changed = await parts.accounts.change('admin', victim.account.id, (now) => ({
      ...now,
      generation: now.generation + 1,
    }))
    expect(parts.devices.find(device.deviceCookie, victim.account)).not.to.equal(undefined)
    expect(parts.devices.find(device.deviceCookie, changed)).to.equal(undefined)
  })
})

import { expect } from 'chai'
import { Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

const attempts = 1500
const sources = 150
const lanes = 32
/** Time limit in ms for the owner's login, which should take one minute. The host of the test may be busy. */
const deadlineMs = 180_000
/** Maximum number of password checks that begin before the attack is detected. */
const unnoticed = 100

/**
 * Maximum number of passwords that are checked within `minutes`. From each source, two are checked at once, and one
 * more after 1, 3, 7, 15 … minutes. Another `unnoticed` checks can begin before the attack is detected.
 */
const mostChecked = (minutes: number): number => unnoticed + sources * (2 + Math.floor(Math.log2(1 + minutes)))

/** Tests real checks of passwords over HTTP; login-limits.test.ts tests only the counts. */
describe(`${attempts} wrong passwords from ${sources} addresses`, function () {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ trustedProxies: ['127.0.0.1'] })
    await makeAdmin(gateway, 'owner')
  })
  after(() => gateway.close())

  const addressOf = (n: number): string => `10.7.${n >> 8}.${n & 255}`
  const from = (address: string): Browser => new Browser(gateway, { 'x-forwarded-for': address })
  const statuses = new Map<number, number>()
  let [sent, isOwnerIn] = [0, false]

  async function attack(): Promise<void> {
    while (!isOwnerIn || sent < attempts) {
      const n = sent++
      const { status } = await from(addressOf(n % sources)).login('owner', `wrong password ${n}`)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }

  /** Logs in. After a rejection it waits for the time in the answer and tries again. @returns the duration in ms */
  async function enter(browser: Browser): Promise<number> {
    const begunMs = performance.now()
    while (performance.now() - begunMs < deadlineMs) {
      const { status, headers } = await browser.login('owner', password)
      if (status === 200) return Math.round(performance.now() - begunMs)
      expect(status).to.equal(429)
      await new Promise((resolve) => setTimeout(resolve, 1000 * Number(headers['retry-after'])))
    }
    throw new Error('the owner is locked out')
  }

  it('do not prevent logins of the account’s owner, neither during the flood nor after it', async () => {
    const device = from('192.0.2.77')
    await enter(device)
    const begunMs = performance.now()
    let isOver = false
    const attacking = Promise.all(Array.from({ length: lanes }, attack)).finally(() => (isOver = true))
    const took: Record<string, number> = {}
    try {
      while (sent < attempts / 4 && !isOver) await device.request('GET', '/session')
      took['from a new place'] = await enter(from('192.0.2.78'))
      const known = from(addressOf(3))
      for (const [name, value] of device.cookies) if (name !== 'berth') known.cookies.set(name, value)
      took['on a known device at an attacker’s address'] = await enter(known)
    } finally {
      isOwnerIn = true
      await attacking
    }
    const minutes = (performance.now() - begunMs) / 60_000
    took['afterwards'] = await enter(from('192.0.2.79'))
    console.log(`      ${JSON.stringify({ took, ...Object.fromEntries(statuses) })}`)
    expect([...statuses.keys()].sort(), 'refused, all of them').to.deep.equal([401, 429])
    expect(statuses.get(401)).to.be.at.most(mostChecked(minutes))
  })
})

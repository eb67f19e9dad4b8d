import { expect } from 'chai'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { distrustMs } from './plan-visibility.js'
import { Visibility } from './visibility.js'

/** A gateway whose messages the tests send and receive instead of Redis. */
class TestGateway {
  readonly published: { kind: string; round?: number; to?: string; from: string }[] = []
  readonly warnings: string[] = []
  isConnected = true
  others = 1
  applied = (): Promise<void> => Promise.resolve()

  readonly visibility = new Visibility({
    // Like `Store`, this function throws synchronously without a connection.
    publish: (message) => {
      if (!this.isConnected) throw new Error('no connection')
      this.published.push(JSON.parse(message))
      return Promise.resolve(1 + this.others)
    },
    applied: () => this.applied(),
    log: pino({ level: 'warn' }, { write: (line: string) => void this.warnings.push(JSON.parse(line).msg) }),
  })

  receive(message: object): void {
    this.visibility.receive(JSON.stringify(message))
  }

  /** Numbers (`round`) of the questions that this gateway has answered. */
  get answered(): (number | undefined)[] {
    return this.published.filter(({ kind }) => kind === 'answer').map(({ round }) => round)
  }
}

const question = (round = 1, shown: readonly object[] = []) => ({ kind: 'question', from: 'other', round, shown })

describe('the exchange of messages with other gateways', () => {
  let gateway: TestGateway
  let rejections: unknown[]
  const note = (reason: unknown): unknown => rejections.push(reason)
  beforeEach(() => {
    gateway = new TestGateway()
    rejections = []
    process.prependListener('unhandledRejection', note)
  })
  afterEach(async () => {
    await nextTurn()
    process.removeListener('unhandledRejection', note)
    expect(rejections).to.deep.equal([])
  })

  it('confirms a change only after this gateway has applied the change', async () => {
    let apply = (): void => undefined
    gateway.applied = () => new Promise((resolve) => (apply = resolve))
    gateway.receive(question(7))
    await nextTurn()
    expect(gateway.answered).to.deep.equal([])
    apply()
    await nextTurn()
    expect(gateway.answered).to.deep.equal([7])
  })

  it('drops an answer without an error if the connection is lost while the answer is prepared', async () => {
    let apply = (): void => undefined
    gateway.applied = () => new Promise((resolve) => (apply = resolve))
    gateway.receive(question())
    gateway.isConnected = false
    apply()
    await nextTurn()
    expect(gateway.answered).to.deep.equal([])
  })

  it('ignores a question without a list of revisions', async () => {
    gateway.receive({ kind: 'question', from: 'other', round: 1 })
    await nextTurn()
    expect(gateway.answered).to.deep.equal([])
  })

  it('reports an error if it has no connection on which to announce the start or end of this gateway', async () => {
    gateway.isConnected = false
    for (const send of [() => gateway.visibility.serve(), () => gateway.visibility.leave()])
      expect(await send().catch(String)).to.equal('Error: no connection')
  })

  it('logs only once that another gateway sends messages but does not answer', async () => {
    const serving = (): void => gateway.receive({ kind: 'serving', from: 'other' })
    serving()
    const heard = setInterval(serving, distrustMs / 4)
    for (let write = 0; write < 2; write++) await gateway.visibility.everywhere()
    clearInterval(heard)
    expect(gateway.warnings.map((text) => text.split(';')[0])).to.deep.equal([
      'store: another gateway did not answer in time',
    ])
  })

  it('forgets a silent gateway, and logs this only once', async () => {
    gateway.receive({ kind: 'serving', from: 'killed' })
    await delay(distrustMs + 10)
    gateway.receive({ kind: 'serving', from: 'other' })
    gateway.receive({ kind: 'leaving', from: 'other' })
    await gateway.visibility.shownEverywhere({ hostId: 'h', revision: 1 })
    expect(gateway.published).to.deep.equal([])
    expect(gateway.warnings.map((text) => text.split(';')[0])).to.deep.equal(['store: another gateway is silent'])
  })
})

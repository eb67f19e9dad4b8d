import { expect } from 'chai'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import { OperationEngine } from '../../agent/operations/engine.js'
import { systemClock } from '../../agent/operations/retry.js'
import type { Clock } from '../../agent/operations/types.js'
import { conflict } from '../../shared/errors.js'
import { define, expectRefused, fail, log, order, step, useEngines } from '../support/operations/operation-lab.js'

describe('a submitted operation', () => {
  const lab = useEngines()

  it('is recorded as pending before its first step runs, and as done after its last step', async () => {
    const ran: string[] = []
    const engine = lab.start([define('a', [step('one', () => void ran.push('one'))])])
    const record = engine.submit(order('1', 'a', 'g'))
    expect(record).to.include({ id: '1', status: 'pending', progress: 0, startedAtMs: 0, revision: 1 })
    expect(ran).to.deep.equal([])
    const ended = await engine.wait('1')
    expect(ended).to.include({ status: 'done', progress: 100, stage: '', error: '', errorCode: '' })
    expect(ended.finishedAtMs).to.be.at.least(ended.startedAtMs)
    expect(ended.startedAtMs).to.be.at.least(ended.createdAtMs)
  })

  it('runs only once per id, even after its end or a restart of the engine', async () => {
    let runs = 0
    let reserved = 0
    const definition = define('a', [step('one', () => void (runs += 1))])
    const again = { ...order('1', 'a', 'g'), reserve: () => void (reserved += 1) }
    const engine = lab.start([definition])
    engine.submit(again)
    engine.submit({ ...again, input: { y: 1, x: 2 }, hashOf: { x: 1 } })
    await engine.wait('1')
    expect(engine.submit(again).status).to.equal('done')
    await engine.close()
    expect(lab.start([definition]).submit(again).status).to.equal('done')
    expect({ runs, reserved }).to.deep.equal({ runs: 1, reserved: 1 })
  })

  for (const [name, change] of [
    ['action', { action: 'b' }],
    ['subject', { subject: { kind: 'image', id: 'g', name: '', number: 0 } }],
    ['request', { hashOf: { x: 2 } }],
  ] as const)
    it(`is rejected if its id belongs to an operation with another ${name}`, () => {
      const engine = lab.start([define('a', []), define('b', [])])
      engine.submit(order('1', 'a', 'g'))
      expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), ...change }), 'operation_conflict')
    })

  describe('with the id of a removed operation', () => {
    const dayMs = 86_400_000
    let nowMs: number
    let runs: number
    const clock: Clock = { ...systemClock, now: () => nowMs }
    const definition = define('a', [step('one', () => void (runs += 1))])
    const start = (): OperationEngine => lab.start([definition, define('b', [])], { clock })

    beforeEach(() => ([nowMs, runs] = [100 * dayMs, 0]))

    for (const [how, remove] of [
      ['by request', async (engine) => engine.remove('1')],
      [
        'because of its age',
        async (engine) => {
          nowMs += dayMs + 1
          expect(await engine.prune(1)).to.equal(1)
        },
      ],
    ] as const satisfies [string, (engine: OperationEngine) => Promise<void>][])
      it(`returns the earlier result without running, even after a restart, if the earlier operation was removed ${how}`, async () => {
        const engine = start()
        engine.submit(order('1', 'a', 'g'))
        const ended = await engine.wait('1')
        await remove(engine)
        const again = { ...order('1', 'a', 'g'), reserve: () => fail('must not reserve') }
        expect(engine.submit(again)).to.deep.equal(ended)
        await engine.close()
        const next = start()
        expect(next.submit(again)).to.deep.equal(ended)
        expect([runs, next.busy(guestSubject('g')), next.store.list()]).to.deep.equal([1, false, []])
        expectRefused(() => void next.get('1'), 'not_found')
        expectRefused(() => next.remove('1'), 'not_found')
        expectRefused(() => next.cancel('1'), 'not_found')
      })

    it('is rejected if its request differs from the earlier request', async () => {
      const engine = start()
      engine.submit(order('1', 'a', 'g'))
      await engine.wait('1')
      engine.remove('1')
      expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), hashOf: { x: 2 } }), 'operation_conflict')
      expectRefused(() => engine.submit({ ...order('1', 'b', 'g') }), 'operation_conflict')
    })

    it('runs like a new operation, and can be removed, after the engine has forgotten the id', async () => {
      const engine = start()
      const run = async (): Promise<void> => {
        engine.submit(order('1', 'a', 'g'))
        await engine.wait('1')
        engine.remove('1')
      }
      await run()
      nowMs += 2 * dayMs
      expect(engine.forgetRemoved(2)).to.equal(0)
      nowMs += 1
      expect(engine.forgetRemoved(2)).to.equal(1)
      await run()
      expect(runs).to.equal(2)
    })
  })

  it('leaves nothing behind if its resources cannot be reserved', async () => {
    const engine = lab.start([define('a', [])])
    lab.changes.db.exec('CREATE TABLE btest (x)')
    const reserve = (): never => {
      lab.changes.db.exec('INSERT INTO btest VALUES (1)')
      lab.changes.record('guest', 'g')
      throw conflict('port_conflict', 'taken')
    }
    expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), reserve }), 'port_conflict')
    expect(lab.changes.db.prepare('SELECT count(*) AS n FROM btest').get()).to.deep.equal({ n: 0 })
    expect([engine.store.list(), lab.changes.revision, engine.busy(guestSubject('g'))]).to.deep.equal([[], 0, false])
    expect(engine.stats()).to.include({ pending: 0, running: 0 })
    engine.submit(order('1', 'a', 'g'))
    expect(await engine.wait('1')).to.include({ status: 'done' })
  })

  it('is rejected during a recovery, after the engine was closed, in a transaction, or with an unknown action', async () => {
    const engine = new OperationEngine({
      changes: lab.changes,
      definitions: [define('a', [])],
      parallel: 1,
      log,
    })
    expectRefused(() => engine.submit(order('1', 'a', 'g')), 'host_offline')
    engine.recover()
    expect(() => engine.recover()).to.throw('twice')
    expect(() => lab.changes.transaction(() => engine.submit(order('1', 'a', 'g')))).to.throw('transaction')
    expect(() => engine.submit(order('1', 'zzz', 'g'))).to.throw(
      'this version of the agent does not know the operation zzz',
    )
    await engine.close()
    expectRefused(() => engine.submit(order('1', 'a', 'g')), 'host_offline')
    expect(engine.store.list()).to.deep.equal([])
  })
})

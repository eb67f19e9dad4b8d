import { expect } from 'chai'
import { OperationEngine } from '../../../agent/operations/engine.js'
import { conflict } from '../../../shared/errors.js'
import { define, expectRefused, log, order, step, useEngines } from '../../support/operation-lab.js'

describe('the submission of operations', () => {
  const lab = useEngines()

  it('is recorded as pending before anything runs, then done', async () => {
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

  it('runs the same id once, also after its end and in another engine', async () => {
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
    ['guest', { guestUuid: 'h' }],
    ['request', { hashOf: { x: 2 } }],
  ] as const)
    it(`refuses the id of an operation with another ${name}`, () => {
      const engine = lab.start([define('a', []), define('b', [])])
      engine.submit(order('1', 'a', 'g'))
      expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), ...change }), 'operation_conflict')
    })

  it('leaves nothing of what is refused by its reserve', async () => {
    const engine = lab.start([define('a', [])])
    lab.changes.db.exec('CREATE TABLE btest (x)')
    const reserve = (): never => {
      lab.changes.db.exec('INSERT INTO btest VALUES (1)')
      lab.changes.record('guest', 'g')
      throw conflict('port_conflict', 'taken')
    }
    expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), reserve }), 'port_conflict')
    expect(lab.changes.db.prepare('SELECT count(*) AS n FROM btest').get()).to.deep.equal({ n: 0 })
    expect([engine.store.list(), lab.changes.revision, engine.busy('g')]).to.deep.equal([[], 0, false])
    expect(engine.stats()).to.include({ pending: 0, running: 0 })
    engine.submit(order('1', 'a', 'g'))
    expect(await engine.wait('1')).to.include({ status: 'done' })
  })

  it('refuses before recovery, after close, inside a transaction and without a definition', async () => {
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
    expect(() => engine.submit(order('1', 'zzz', 'g'))).to.throw('no operation zzz')
    await engine.close()
    expectRefused(() => engine.submit(order('1', 'a', 'g')), 'host_offline')
    expect(engine.store.list()).to.deep.equal([])
  })
})

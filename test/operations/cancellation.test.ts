import { expect } from 'chai'
import type { OperationOutcome, Step } from '../../agent/operations/types.js'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import { define, expectRefused, fail, Gate, order, step, useEngines } from '../support/operations/operation-lab.js'
import { waitFor } from '../support/wait.js'

describe('the operation engine', () => {
  const lab = useEngines()

  it('cancels a pending operation and calls its end function, but refuses to cancel a running operation', async () => {
    const gate = new Gate()
    const settled: string[] = []
    const definition = define('a', [gate.step], {
      settle: ({ id }, { status }) => void settled.push(`${id} ${status}`),
    })
    const engine = lab.start([definition])
    for (const id of ['1', '2', '3']) engine.submit(order(id, 'a', 'g'))
    await gate.entered(1)
    expect(engine.cancel('2')).to.include({ status: 'canceled', startedAtMs: 0 })
    expectRefused(() => engine.cancel('1'), 'task_running')
    expectRefused(() => engine.cancel('2'), 'invalid_state')
    expectRefused(() => engine.cancel('9'), 'not_found')
    expect(await engine.wait('2')).to.include({ status: 'canceled' })
    gate.open()
    expect((await engine.wait('3')).status).to.equal('done')
    expect(settled).to.deep.equal(['2 canceled', '1 done', '3 done'])
  })

  it('cancels the oldest pending operation of a guest, and then runs the next operation if one exists', async () => {
    const engine = lab.start([define('a', [])])
    for (const id of ['1', '2']) engine.submit(order(id, 'a', 'g'))
    engine.cancel('1')
    expect(engine.busy(guestSubject('g'))).to.equal(true)
    expect((await engine.wait('2')).status).to.equal('done')
    engine.submit(order('3', 'a', 'h'))
    engine.cancel('3')
    expect(engine.busy(guestSubject('h'))).to.equal(false)
    expect(engine.stats()).to.include({ pending: 0, canceled: 2, done: 1 })
  })

  it('aborts the running step of a canceled operation, and undoes this step and all earlier steps', async () => {
    const done: string[] = []
    const noted = (name: string): Step<unknown, string> => ({
      ...step(name, () => void done.push(name)),
      undo: async () => void done.push(`undo ${name}`),
    })
    const long: Step<unknown, string> = {
      name: 'long',
      cancelable: () => true,
      run: ({ signal }) =>
        new Promise((_, reject) => {
          done.push('long')
          signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true })
        }),
      undo: async () => void done.push('undo long'),
    }
    const outcomes: string[] = []
    const settle = (_: unknown, { status }: OperationOutcome): void => void outcomes.push(status)
    const engine = lab.start([define('a', [noted('first'), long, noted('last')], { settle })])
    engine.submit(order('1', 'a', 'g'))
    await waitFor(() => done.includes('long'), { intervalMs: 2 })
    expect(engine.cancel('1')).to.include({ status: 'running', stage: 'canceling' })
    expectRefused(() => engine.cancel('1'), 'task_running')
    expect(await engine.wait('1')).to.include({ status: 'canceled', errorCode: '', error: '' })
    expect(done).to.deep.equal(['first', 'long', 'undo long', 'undo first'])
    expect(outcomes).to.deep.equal(['canceled'])
    expectRefused(() => engine.cancel('1'), 'invalid_state')
  })

  it('undoes a canceled operation even if its running step still succeeds', async () => {
    const gate = new Gate()
    const undone: string[] = []
    const deaf = { ...gate.step, cancelable: () => true, undo: async () => void undone.push('gate') }
    const engine = lab.start([define('a', [deaf, step('never', () => fail())])])
    engine.submit(order('1', 'a', 'g'))
    await gate.entered(1)
    engine.cancel('1')
    gate.open()
    expect((await engine.wait('1')).status).to.equal('canceled')
    expect(undone).to.deep.equal(['gate'])
  })

  it('reports a canceled operation as failed if the undo of a step fails', async () => {
    const gate = new Gate()
    const stuck = { ...gate.step, cancelable: () => true, undo: async () => fail('stuck') }
    const engine = lab.start([define('a', [stuck])])
    engine.submit(order('1', 'a', 'g'))
    await gate.entered(1)
    engine.cancel('1')
    gate.open()
    const { status, error } = await engine.wait('1')
    expect([status, error]).to.deep.equal(['failed', 'canceled; undo of gate failed: stuck'])
  })

  it('cancels an operation after a restart if its step ignored the cancellation before the restart', async () => {
    const gate = new Gate()
    const runs: string[] = []
    const deaf = {
      name: 'gate',
      cancelable: () => true,
      run: () => (runs.push('run'), gate.pass()),
      undo: async () => void runs.push('undo'),
    }
    const engine = lab.start([define('a', [deaf])])
    engine.submit(order('1', 'a', 'g'))
    await gate.entered(1)
    engine.cancel('1')
    await engine.close(1)
    const next = lab.start([define('a', [deaf])])
    expect((await next.wait('1')).status).to.equal('canceled')
    expect(runs).to.deep.equal(['run', 'undo'])
    gate.open()
  })

  for (const left of ['long', 'second'])
    it(`resumes the undo of a canceled operation after a restart, beginning with the step "${left}"`, async () => {
      const gate = new Gate()
      const runs: string[] = []
      const settled: string[] = []
      const definitions = (undoing: (name: string, repeated: boolean) => Promise<void>) => {
        const undo =
          (name: string): NonNullable<Step<unknown, string>['undo']> =>
          async ({ repeated }) => {
            await undoing(name, repeated)
            runs.push(`undo ${name}`)
          }
        const noted = (name: string): Step<unknown, string> => ({
          ...step(name, () => void runs.push(name)),
          undo: undo(name),
        })
        const long: Step<unknown, string> = {
          name: 'long',
          cancelable: () => true,
          undo: undo('long'),
          run: ({ signal }) =>
            new Promise((_, reject) => {
              runs.push('long')
              signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true })
            }),
        }
        const settle = (_: unknown, { status }: OperationOutcome): void => void settled.push(status)
        return [define('a', [noted('first'), noted('second'), long, noted('never')], { settle })]
      }
      const engine = lab.start(definitions((name) => (name === left ? gate.pass() : Promise.resolve())))
      engine.submit(order('1', 'a', 'g'))
      await waitFor(() => runs.includes('long'), { intervalMs: 2 })
      engine.cancel('1')
      await gate.entered(1)
      await engine.close(1)
      const before = [...runs]
      expect(settled).to.deep.equal([])
      expectRefused(() => engine.submit(order('2', 'a', 'h')), 'host_offline')

      const repeats: string[] = []
      const next = lab.start(definitions(async (name, repeated) => void (repeated && repeats.push(name))))
      expect(await next.wait('1')).to.include({ status: 'canceled', errorCode: '', error: '' })
      const all = ['undo long', 'undo second', 'undo first']
      expect(before).to.deep.equal(['first', 'second', 'long', ...all.slice(0, all.indexOf(`undo ${left}`))])
      expect(runs.slice(before.length)).to.deep.equal(all.slice(all.indexOf(`undo ${left}`)))
      expect([repeats, settled]).to.deep.equal([[left], ['canceled']])
      gate.open()
    })

  it('removes an ended operation, and reports the removal to watchers', async () => {
    const gate = new Gate()
    const engine = lab.start([define('a', [gate.step])], { parallel: 1 })
    for (const id of ['1', '2']) engine.submit(order(id, 'a', ''))
    await gate.entered(1)
    expectRefused(() => engine.remove('1'), 'task_running')
    expectRefused(() => engine.remove('2'), 'invalid_state')
    expectRefused(() => engine.remove('9'), 'not_found')
    gate.open()
    await engine.wait('2')
    const { revision } = lab.changes
    engine.remove('1')
    expect(lab.changes.removedSince(revision)).to.deep.equal([
      { revision: revision + 1, kind: 'operation', key: '1', removed: true },
    ])
    expectRefused(() => engine.get('1'), 'not_found')
  })

  it('prunes only operations that ended more than the given number of days ago', async () => {
    const day = 86_400_000
    let now = day
    const clock = { now: () => now, sleep: async () => undefined }
    const gate = new Gate()
    const engine = lab.start([define('a', []), define('slow', [gate.step])], { clock })
    engine.submit(order('open', 'slow', 'h'))
    const old = Array.from({ length: 450 }, (_, n) => `old${n}`)
    for (const id of old) engine.submit(order(id, 'a', id))
    await Promise.all(old.map((id) => engine.wait(id)))
    now += 31 * day
    engine.submit(order('new', 'a', 'g'))
    await engine.wait('new')
    expect(await engine.prune(30)).to.equal(450)
    expect(engine.store.list().map(({ id }) => id)).to.deep.equal(['new', 'open'])
    gate.open()
    await engine.wait('open')
  })

  it('cancels the pending operations of a guest when its deletion is submitted, but not running operations and deletions', async () => {
    const gate = new Gate()
    const settled: string[] = []
    const settle = ({ id }: { id: string }, { status }: OperationOutcome): void => void settled.push(`${id} ${status}`)
    const definitions = [
      define('slow', [gate.step], { settle }),
      define('a', [], { settle }),
      define('delete', [], { settle, forwardOnly: true }),
    ]
    const engine = lab.start(definitions)
    engine.submit(order('1', 'slow', 'g'))
    engine.submit(order('2', 'a', 'g'))
    engine.submit(order('other', 'a', 'h'))
    await gate.entered(1)
    engine.submit(order('d1', 'delete', 'g'))
    engine.submit(order('3', 'a', 'g'))
    engine.submit(order('d2', 'delete', 'g'))
    for (const id of ['2', '3']) expect(engine.get(id)).to.include({ status: 'canceled', errorCode: 'superseded' })
    expect(engine.get('d1').status).to.equal('pending')
    gate.open()
    await engine.wait('d2')
    const ofGuest = settled.filter((line) => !line.startsWith('other'))
    expect(ofGuest).to.deep.equal(['2 canceled', '3 canceled', '1 done', 'd1 done', 'd2 done'])
    expect((await engine.wait('other')).status).to.equal('done')
  })

  it('cancels no operations of a guest if its deletion is rejected', async () => {
    const engine = lab.start([define('a', []), define('delete', [], { forwardOnly: true })])
    engine.submit(order('1', 'a', 'g'))
    const refused = { ...order('d', 'delete', 'g'), reserve: () => fail() }
    expect(() => engine.submit(refused)).to.throw('no')
    expect((await engine.wait('1')).status).to.equal('done')
  })
})

import { expect } from 'chai'
import fc from 'fast-check'
import type { Step, StepContext } from '../../agent/operations/types.js'
import { conflict } from '../../shared/errors.js'
import { command, Gauge, interleave } from '../support/operations/operation-interleaving.js'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import { define, fail, order, retry, step, useEngines } from '../support/operations/operation-lab.js'
import { waitFor } from '../support/wait.js'

describe('the order of operations', () => {
  const lab = useEngines()

  it('is the order of submission, with one running operation per guest and a limit for all guests', async () => {
    const gauge = new Gauge()
    const engine = lab.start([define('a', [gauge.step('one'), gauge.step('two')])], { parallel: 3 })
    const ids = Array.from({ length: 30 }, (_, n) => `${n}`)
    for (const id of ids) engine.submit(order(id, 'a', `g${Number(id) % 10}`))
    expect(engine.stats()).to.include({ pending: 30, running: 0 })
    await Promise.all(ids.map((id) => engine.wait(id)))
    expect(gauge.most).to.equal(3)
    expect(gauge.mostOfGuest).to.equal(1)
    for (let guest = 0; guest < 10; guest++)
      expect(gauge.begun.get(`g${guest}`)).to.deep.equal([`${guest}`, `${guest + 10}`, `${guest + 20}`])
    expect(gauge.firsts.slice(0, 3)).to.deep.equal(['0', '1', '2'])
    await waitFor(() => engine.stats().running === 0)
    expect(engine.stats()).to.deep.equal({ running: 0, pending: 0, done: 30, failed: 0, canceled: 0 })
    expect(engine.busy(guestSubject('g1'))).to.equal(false)
  })

  it('is serial for operations on the same subject, and parallel for operations on different subjects', async () => {
    const gauge = new Gauge()
    const engine = lab.start([define('a', [gauge.step('one')])], { parallel: 4 })
    const subject = { kind: 'image', id: 'g', name: '', number: 0 }
    for (const id of ['1', '2']) engine.submit(order(id, 'a', ''))
    engine.submit(order('3', 'a', 'g'))
    for (const id of ['4', '5']) engine.submit({ ...order(id, 'a', ''), subject })
    expect([engine.busy(subject), engine.busy({ kind: 'swap', id: 'g' })]).to.deep.equal([true, false])
    await waitFor(() => engine.get('4').status === 'done')
    expect(gauge.most).to.equal(4)
    expect(gauge.firsts.slice(0, 4)).to.deep.equal(['1', '2', '3', '4'])
    expect((await engine.wait('5')).startedAtMs).to.be.at.least(engine.get('4').finishedAtMs)
    expect(engine.busy(subject)).to.equal(false)
  })

  it('continues with the next operation of the guest after an operation has failed', async () => {
    const engine = lab.start([define('bad', [step('x', () => fail())]), define('a', [])])
    engine.submit(order('1', 'bad', 'g'))
    engine.submit(order('2', 'a', 'g'))
    expect((await engine.wait('2')).status).to.equal('done')
    expect((await engine.wait('1')).status).to.equal('failed')
  })

  it('lets other operations run while an operation waits for its next attempt', async () => {
    let healed = false
    const remove = define('delete', [step('x', () => void (healed || fail()))], { forwardOnly: true })
    const engine = lab.start([remove, define('a', [])], { parallel: 1, retry: { ...retry, maxMs: 30 } })
    engine.submit(order('d', 'delete', 'g'))
    engine.submit(order('later', 'a', 'g'))
    await waitFor(() => engine.get('d').error !== '')
    engine.submit(order('1', 'a', 'h'))
    expect((await engine.wait('1')).status).to.equal('done')
    expect(engine.get('later').status).to.equal('pending')
    expect(engine.get('d')).to.include({ status: 'running', error: 'no', stage: 'x: failed, trying again' })
    healed = true
    expect(await engine.wait('d')).to.include({ status: 'done', error: '' })
    expect((await engine.wait('later')).status).to.equal('done')
  })

  it('counts each started operation towards the limit, except while it waits for a shared resource', async () => {
    let arrive = (): void => undefined
    const shared = new Promise<void>((resolve) => (arrive = resolve))
    let going = 0
    let most = 0
    const waits: Step<unknown, string> = {
      name: 'waits',
      run: async (context) => {
        await context.yieldWhile(shared)
        most = Math.max(most, ++going)
        await new Promise((resolve) => setTimeout(resolve, 5))
        going -= 1
      },
    }
    const engine = lab.start([define('waits', [waits]), define('a', [step('one', () => undefined)])])
    const ids = Array.from({ length: 8 }, (_, n) => `w${n}`)
    for (const id of ids) engine.submit(order(id, 'waits', id))
    engine.submit(order('behind', 'a', 'w0'))
    engine.submit(order('ninth', 'a', 'h'))
    expect((await engine.wait('ninth')).status).to.equal('done')
    expect([engine.stats().running, engine.get('behind').status]).to.deep.equal([8, 'pending'])
    arrive()
    for (const id of [...ids, 'behind']) expect((await engine.wait(id)).status).to.equal('done')
    expect(most).to.equal(4)
  })

  it('lets an operation fail or be interrupted while it waits for a shared resource', async () => {
    const waits = (work: (context: StepContext<unknown, string>) => Promise<void>): Step<unknown, string> => ({
      name: 'waits',
      run: (context) => context.yieldWhile(work(context)),
    })
    const refused = waits(() => Promise.reject(conflict('image_missing', 'no mirror')))
    const aborted = waits(
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')))),
    )
    const engine = lab.start([define('refused', [refused]), define('aborted', [aborted])], { parallel: 1 })
    engine.submit(order('1', 'refused', 'g'))
    expect(await engine.wait('1')).to.include({ status: 'failed', errorCode: 'image_missing' })
    engine.submit(order('2', 'aborted', 'h'))
    await waitFor(() => engine.stats().running === 1)
    expect(await engine.close(1000)).to.equal(true)
    expect(engine.get('2').status).to.equal('running')
  })

  it('stays correct in random sequences of submissions, cancellations, deletions and restarts', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 40 }), fc.integer({ min: 1, max: 5 }), interleave),
      { numRuns: 60 },
    )
  })
})

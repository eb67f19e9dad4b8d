import { expect } from 'chai'
import fc from 'fast-check'
import { pino } from 'pino'
import { OperationEngine } from '../../agent/operations/engine.js'
import type { EngineOptions, Submission } from '../../agent/operations/submission.js'
import type {
  OperationDefinition,
  OperationOutcome,
  OperationRecord,
  Step,
  StepContext,
} from '../../agent/operations/types.js'
import { Changes, type Change } from '../../agent/state/changes.js'
import { openDatabase } from '../../agent/state/database.js'
import { conflict } from '../../shared/errors.js'
import { waitFor } from '../support/wait.js'

const log = pino({ level: 'silent' })
const retry = { firstMs: 1, maxMs: 8, undoAttempts: 3 }

describe('operations', () => {
  let changes: Changes
  const engines: OperationEngine[] = []

  beforeEach(() => (changes = new Changes(openDatabase(':memory:'))))
  afterEach(async () => {
    await Promise.all(engines.splice(0).map((engine) => engine.close(1000)))
    changes.db.close()
  })

  function start(
    definitions: readonly OperationDefinition<unknown>[],
    options: Partial<EngineOptions> = {},
  ): OperationEngine {
    const engine = new OperationEngine({ changes, definitions, parallel: 4, log, retry, ...options })
    engine.recover()
    engines.push(engine)
    return engine
  }

  describe('submission', () => {
    it('is recorded as pending before anything runs, then done', async () => {
      const ran: string[] = []
      const engine = start([define('a', [step('one', () => void ran.push('one'))])])
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
      const engine = start([definition])
      engine.submit(again)
      engine.submit({ ...again, input: { y: 1, x: 2 }, hashOf: { x: 1 } })
      await engine.wait('1')
      expect(engine.submit(again).status).to.equal('done')
      await engine.close()
      expect(start([definition]).submit(again).status).to.equal('done')
      expect({ runs, reserved }).to.deep.equal({ runs: 1, reserved: 1 })
    })

    for (const [name, change] of [
      ['action', { action: 'b' }],
      ['guest', { guestUuid: 'h' }],
      ['request', { hashOf: { x: 2 } }],
    ] as const)
      it(`refuses the id of an operation with another ${name}`, () => {
        const engine = start([define('a', []), define('b', [])])
        engine.submit(order('1', 'a', 'g'))
        expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), ...change }), 'operation_conflict')
      })

    it('leaves nothing of what is refused by its reserve', async () => {
      const engine = start([define('a', [])])
      changes.db.exec('CREATE TABLE btest (x)')
      const reserve = (): never => {
        changes.db.exec('INSERT INTO btest VALUES (1)')
        changes.record('guest', 'g')
        throw conflict('port_conflict', 'taken')
      }
      expectRefused(() => engine.submit({ ...order('1', 'a', 'g'), reserve }), 'port_conflict')
      expect(changes.db.prepare('SELECT count(*) AS n FROM btest').get()).to.deep.equal({ n: 0 })
      expect([engine.store.list(), changes.revision, engine.busy('g')]).to.deep.equal([[], 0, false])
      expect(engine.stats()).to.include({ pending: 0, running: 0 })
      engine.submit(order('1', 'a', 'g'))
      expect(await engine.wait('1')).to.include({ status: 'done' })
    })

    it('refuses before recovery, after close, inside a transaction and without a definition', async () => {
      const engine = new OperationEngine({ changes, definitions: [define('a', [])], parallel: 1, log })
      expectRefused(() => engine.submit(order('1', 'a', 'g')), 'host_offline')
      engine.recover()
      expect(() => engine.recover()).to.throw('twice')
      expect(() => changes.transaction(() => engine.submit(order('1', 'a', 'g')))).to.throw('transaction')
      expect(() => engine.submit(order('1', 'zzz', 'g'))).to.throw('no operation zzz')
      await engine.close()
      expectRefused(() => engine.submit(order('1', 'a', 'g')), 'host_offline')
      expect(engine.store.list()).to.deep.equal([])
    })
  })

  describe('order', () => {
    it('runs one guest one after another, at most `parallel` guests at once, first come first served', async () => {
      const gauge = new Gauge()
      const engine = start([define('a', [gauge.step('one'), gauge.step('two')])], { parallel: 3 })
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
      expect(engine.busy('g1')).to.equal(false)
    })

    it('holds operations of no guest to no order', async () => {
      const gauge = new Gauge()
      const engine = start([define('a', [gauge.step('one')])], { parallel: 3 })
      for (const id of ['1', '2', '3']) engine.submit(order(id, 'a', ''))
      await Promise.all(['1', '2', '3'].map((id) => engine.wait(id)))
      expect(gauge.most).to.equal(3)
      expect(engine.busy('')).to.equal(false)
    })

    it('goes on with the guest after a failure', async () => {
      const engine = start([define('bad', [step('x', () => fail())]), define('a', [])])
      engine.submit(order('1', 'bad', 'g'))
      engine.submit(order('2', 'a', 'g'))
      expect((await engine.wait('2')).status).to.equal('done')
      expect((await engine.wait('1')).status).to.equal('failed')
    })

    it('gives the place of what waits for its next attempt to others', async () => {
      let healed = false
      const remove = define('delete', [step('x', () => void (healed || fail()))], { forwardOnly: true })
      const engine = start([remove, define('a', [])], { parallel: 1, retry: { ...retry, maxMs: 30 } })
      engine.submit(order('d', 'delete', 'g'))
      engine.submit(order('later', 'a', 'g'))
      await waitFor(() => engine.get('d').error !== '')
      engine.submit(order('1', 'a', 'h'))
      expect((await engine.wait('1')).status).to.equal('done')
      expect(engine.get('later').status).to.equal('pending')
      expect(engine.get('d')).to.include({ status: 'running', error: 'no', stage: 'x: failed, tried again' })
      healed = true
      expect(await engine.wait('d')).to.include({ status: 'done', error: '' })
      expect((await engine.wait('later')).status).to.equal('done')
    })

    it('gives the places of those that wait for something shared to others, and keeps the limit after', async () => {
      let arrive = (): void => undefined
      const shared = new Promise<void>((resolve) => (arrive = resolve))
      let going = 0
      let most = 0
      const waits: Step<unknown> = {
        name: 'waits',
        run: async (context) => {
          await context.yieldWhile(shared)
          most = Math.max(most, ++going)
          await new Promise((resolve) => setTimeout(resolve, 5))
          going -= 1
        },
      }
      const engine = start([define('waits', [waits]), define('a', [step('one', () => undefined)])])
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

    it('fails with what a shared wait failed with, and closes while one waits', async () => {
      const waits = (work: (context: StepContext<unknown>) => Promise<void>): Step<unknown> => ({
        name: 'waits',
        run: (context) => context.yieldWhile(work(context)),
      })
      const refused = waits(() => Promise.reject(conflict('image_missing', 'no mirror')))
      const aborted = waits(
        ({ signal }) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')))),
      )
      const engine = start([define('refused', [refused]), define('aborted', [aborted])], { parallel: 1 })
      engine.submit(order('1', 'refused', 'g'))
      expect(await engine.wait('1')).to.include({ status: 'failed', errorCode: 'image_missing' })
      engine.submit(order('2', 'aborted', 'h'))
      await waitFor(() => engine.stats().running === 1)
      expect(await engine.close(1000)).to.equal(true)
      expect(engine.get('2').status).to.equal('running')
    })

    it('keeps order, limit and every operation in random interleavings', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(command, { maxLength: 40 }), fc.integer({ min: 1, max: 5 }), interleave),
        { numRuns: 60 },
      )
    })
  })

  describe('failure', () => {
    it('undoes in reverse, the failed step first, and records the chain of causes', async () => {
      const seen: string[] = []
      const part = (name: string, run: () => void = () => undefined): Step<unknown> => ({
        name,
        run: async () => run(),
        undo: async () => void seen.push(name),
      })
      const outcomes: OperationOutcome[] = []
      const steps = [part('one'), step('no undo', () => undefined), part('three', withCause), part('four')]
      const engine = start([define('a', steps, { settle: (_, outcome) => outcomes.push(outcome) })])
      engine.submit(order('1', 'a', 'g'))
      const record = await engine.wait('1')
      expect(seen).to.deep.equal(['three', 'one'])
      expect(record).to.include({ status: 'failed', errorCode: 'internal_error', error: 'outer: inner' })
      expect(outcomes).to.deep.equal([
        { status: 'failed', code: 'internal_error', message: 'outer: inner', undone: true },
      ])
    })

    for (const [name, thrown, code, message] of [
      ['a known error', conflict('port_conflict', 'taken'), 'port_conflict', 'taken'],
      ['text', 'plain', 'internal_error', 'plain'],
      ['nothing', undefined, 'internal_error', 'failed without a message'],
      ['what refers to itself', selfReferring(), 'internal_error', '[object Object]'],
      ['much', new Error('x'.repeat(5000)), 'internal_error', `${'x'.repeat(1999)}…`],
    ] as const)
      it(`records ${name} thrown by a step that is not even asynchronous`, async () => {
        const thrower: Step<unknown> = {
          name: 'x',
          run: () => {
            throw thrown
          },
        }
        const engine = start([define('a', [thrower])])
        engine.submit(order('1', 'a', 'g'))
        expect(await engine.wait('1')).to.include({ status: 'failed', errorCode: code, error: message })
      })

    it('tries an undo again, then leaves what came before and says both errors', async () => {
      const seen: string[] = []
      const outcomes: OperationOutcome[] = []
      const steps: Step<unknown>[] = [
        { name: 'first', run: async () => undefined, undo: async () => void seen.push('first') },
        { name: 'second', run: async () => fail(), undo: async () => (seen.push('second'), fail('busy')) },
      ]
      const engine = start([define('a', steps, { settle: (_, outcome) => outcomes.push(outcome) })])
      engine.submit(order('1', 'a', 'g'))
      const { status, error } = await engine.wait('1')
      expect({ status, error }).to.deep.equal({ status: 'failed', error: 'no; undo of second failed: busy' })
      expect(seen).to.deep.equal(['second', 'second', 'second'])
      expect(outcomes).to.have.length(1)
      expect(outcomes[0]).to.include({ undone: false })
    })

    it('goes on undoing when a later attempt succeeds', async () => {
      const seen: boolean[] = []
      const undo = async ({ repeated }: StepContext<unknown>): Promise<void> => {
        seen.push(repeated)
        if (seen.length < 3) fail()
      }
      const engine = start([define('a', [{ name: 'x', run: async () => fail(), undo }])])
      engine.submit(order('1', 'a', 'g'))
      expect((await engine.wait('1')).error).to.equal('no')
      expect(seen).to.deep.equal([false, true, true])
    })

    it('tries what only goes forward again, with growing waits, and never undoes it', async () => {
      const waits: number[] = []
      const repeats: boolean[] = []
      const clock = { now: Date.now, sleep: async (ms: number) => void waits.push(ms) }
      const run = async ({ repeated }: StepContext<unknown>): Promise<void> => {
        repeats.push(repeated)
        if (repeats.length < 9) fail()
      }
      const definition = define('delete', [{ name: 'x', run, undo: async () => fail('undone') }], {
        forwardOnly: true,
      })
      const engine = start([definition], { clock, retry: { firstMs: 1000, maxMs: 60_000, undoAttempts: 1 } })
      engine.submit(order('1', 'delete', 'g'))
      expect(await engine.wait('1')).to.include({ status: 'done', error: '', errorCode: '' })
      expect(waits).to.deep.equal([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
      expect(repeats).to.deep.equal([false, ...Array.from({ length: 8 }, () => true)])
    })

    it('ends although settle throws: as a failure that can be settled, else without', async () => {
      const outcomes: string[] = []
      const settle =
        (times: number) =>
        (_: unknown, outcome: OperationOutcome): void => {
          outcomes.push(outcome.status)
          if (outcomes.length <= times) fail('settle')
        }
      const engine = start([define('a', [], { settle: settle(1) }), define('b', [], { settle: settle(99) })])
      engine.submit(order('1', 'a', 'g'))
      expect(await engine.wait('1')).to.include({ status: 'failed', error: 'settle: settle' })
      expect(outcomes).to.deep.equal(['done', 'failed'])
      engine.submit(order('2', 'b', 'g'))
      expect(await engine.wait('2')).to.include({ status: 'failed', errorCode: 'internal_error' })
      expect(engine.stats()).to.include({ failed: 2, running: 0 })
    })

    it('stops where it is while the journal is full, and goes on when there is room', async () => {
      const { db } = changes
      const big = 'x'.repeat(100_000)
      db.exec('CREATE TABLE btest (x)')
      const settle = (): void => void db.prepare('INSERT INTO btest VALUES (?)').run(big)
      const fill = step('one', (context) => {
        db.pragma(`max_page_count = ${db.pragma('page_count', { simple: true }) as number}`)
        context.report(0.5, big)
      })
      const lines: string[] = []
      const kept = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
      const engine = start([define('a', [fill], { settle })], { log: kept })
      engine.submit(order('1', 'a', 'g'))
      await waitFor(() => lines.length > 3)
      expect(lines[0]).to.include('write journal').and.include('SQLITE_FULL')
      expect(engine.get('1')).to.include({ status: 'running', error: '' })
      expect(() => engine.submit({ ...order('2', 'a', 'h'), input: big })).to.throw('full')
      expect(engine.busy('h')).to.equal(false)
      db.pragma('max_page_count = 1000000')
      expect((await engine.wait('1')).status).to.equal('done')
      expect(db.prepare('SELECT count(*) AS n FROM btest').get()).to.deep.equal({ n: 1 })
    })
  })

  describe('cancel and remove', () => {
    it('cancels what has not begun, settles it and lets the next run', async () => {
      const gate = new Gate()
      const settled: string[] = []
      const definition = define('a', [gate.step], {
        settle: ({ id }, { status }) => void settled.push(`${id} ${status}`),
      })
      const engine = start([definition])
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

    it('cancels the first in line before it begins', async () => {
      const engine = start([define('a', [])])
      for (const id of ['1', '2']) engine.submit(order(id, 'a', 'g'))
      engine.cancel('1')
      expect(engine.busy('g')).to.equal(true)
      expect((await engine.wait('2')).status).to.equal('done')
      engine.submit(order('3', 'a', 'h'))
      engine.cancel('3')
      expect(engine.busy('h')).to.equal(false)
      expect(engine.stats()).to.include({ pending: 0, canceled: 2, done: 1 })
    })

    it('removes what has ended, as a change that watchers see', async () => {
      const gate = new Gate()
      const engine = start([define('a', [gate.step])], { parallel: 1 })
      for (const id of ['1', '2']) engine.submit(order(id, 'a', ''))
      await gate.entered(1)
      expectRefused(() => engine.remove('1'), 'task_running')
      expectRefused(() => engine.remove('2'), 'invalid_state')
      expectRefused(() => engine.remove('9'), 'not_found')
      gate.open()
      await engine.wait('2')
      const { revision } = changes
      engine.remove('1')
      expect(changes.removedSince(revision)).to.deep.equal([
        { revision: revision + 1, kind: 'operation', key: '1', removed: true },
      ])
      expectRefused(() => engine.get('1'), 'not_found')
    })

    it('prunes what ended long ago and nothing else', async () => {
      const day = 86_400_000
      let now = day
      const clock = { now: () => now, sleep: async () => undefined }
      const gate = new Gate()
      const engine = start([define('a', []), define('slow', [gate.step])], { clock })
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

    it('lets a deletion win over what waits, but not over what runs or another deletion', async () => {
      const gate = new Gate()
      const settled: string[] = []
      const settle = ({ id }: { id: string }, { status }: OperationOutcome): void =>
        void settled.push(`${id} ${status}`)
      const definitions = [
        define('slow', [gate.step], { settle }),
        define('a', [], { settle }),
        define('delete', [], { settle, forwardOnly: true }),
      ]
      const engine = start(definitions)
      engine.submit(order('1', 'slow', 'g'))
      engine.submit(order('2', 'a', 'g'))
      engine.submit(order('other', 'a', 'h'))
      await gate.entered(1)
      engine.submit(order('d1', 'delete', 'g'))
      engine.submit(order('3', 'a', 'g'))
      engine.submit(order('d2', 'delete', 'g'))
      for (const id of ['2', '3'])
        expect(engine.get(id)).to.include({ status: 'canceled', errorCode: 'superseded' })
      expect(engine.get('d1').status).to.equal('pending')
      gate.open()
      await engine.wait('d2')
      const ofGuest = settled.filter((line) => !line.startsWith('other'))
      expect(ofGuest).to.deep.equal(['2 canceled', '3 canceled', '1 done', 'd1 done', 'd2 done'])
      expect((await engine.wait('other')).status).to.equal('done')
    })

    it('cancels nothing when the deletion is refused', async () => {
      const engine = start([define('a', []), define('delete', [], { forwardOnly: true })])
      engine.submit(order('1', 'a', 'g'))
      const refused = { ...order('d', 'delete', 'g'), reserve: () => fail() }
      expect(() => engine.submit(refused)).to.throw('no')
      expect((await engine.wait('1')).status).to.equal('done')
    })
  })

  describe('shutdown and recovery', () => {
    it('interrupts steps without failing or undoing, and the next engine goes on in order', async () => {
      const seen: string[] = []
      const steps: Step<unknown>[] = [
        { name: 'one', run: async () => void seen.push('one'), undo: async () => void seen.push('undo one') },
        {
          name: 'two',
          run: async ({ signal, repeated }) => {
            seen.push(`two${repeated ? ' again' : ''}`)
            if (!repeated) await aborted(signal)
          },
          undo: async () => void seen.push('undo two'),
        },
        { name: 'three', run: async ({ repeated }) => void seen.push(`three${repeated ? ' again' : ''}`) },
      ]
      const definitions = [define('a', steps), define('b', [step('b', () => void seen.push('b'))])]
      const first = start(definitions)
      first.submit(order('1', 'a', 'g'))
      first.submit(order('2', 'b', 'g'))
      const waiting = first.wait('2').then(
        () => 'ended',
        (error: Error) => error.message,
      )
      await waitFor(() => seen.includes('two'))
      expect(await first.close()).to.equal(true)
      expect(await waiting).to.equal('the agent is starting or stopping')
      expect(first.get('1')).to.include({ status: 'running', stage: 'two', error: '' })
      expect(first.get('2')).to.include({ status: 'pending' })

      const second = start(definitions)
      await second.wait('2')
      expect(second.get('1')).to.include({ status: 'done' })
      expect(seen).to.deep.equal(['one', 'two', 'two again', 'three', 'b'])
    })

    it('does not wait for ever for a step that does not listen', async () => {
      const gate = new Gate()
      const engine = start([define('a', [gate.step, step('next', () => fail('must not begin'))])])
      engine.submit(order('1', 'a', 'g'))
      await gate.entered(1)
      expect(await engine.close(20)).to.equal(false)
      gate.open()
      await waitFor(() => engine.stats().running === 0)
      expect(engine.get('1')).to.include({ status: 'running', stage: 'gate' })
    })

    it('closes at once while attempts wait, and resumes them', async () => {
      let healed = false
      const remove = define('delete', [step('x', () => void (healed || fail()))], { forwardOnly: true })
      const patient = { retry: { firstMs: 60_000, maxMs: 60_000, undoAttempts: 2 } }
      const first = start([remove], patient)
      first.submit(order('1', 'delete', 'g'))
      await waitFor(() => first.get('1').error !== '')
      expect(await first.close(500)).to.equal(true)
      healed = true
      const second = start([remove], patient)
      expect(second.busy('g')).to.equal(true)
      expectRefused(() => second.cancel('1'), 'task_running')
      expect((await second.wait('1')).status).to.equal('done')
    })

    it('does not fail what has no undo either, where it is interrupted', async () => {
      const run = step('x', ({ signal, repeated }) => (repeated ? undefined : aborted(signal)))
      const first = start([define('a', [run])])
      first.submit(order('1', 'a', 'g'))
      await waitFor(() => first.get('1').status === 'running')
      await first.close()
      expect(first.get('1').status).to.equal('running')
      expect((await start([define('a', [run])]).wait('1')).status).to.equal('done')
    })

    it('closes while the next attempt waits for its turn', async () => {
      const remove = define('delete', [step('x', () => fail())], { forwardOnly: true })
      const busy = define('busy', [step('x', ({ signal }) => aborted(signal))])
      const engine = start([remove, busy], { parallel: 1, retry: { ...retry, maxMs: 1 } })
      engine.submit(order('1', 'delete', 'g'))
      engine.submit(order('2', 'busy', 'h'))
      await waitFor(() => engine.get('2').status === 'running')
      await new Promise((done) => setTimeout(done, 20)) // the attempt is due, its place taken
      expect(await engine.close(2000)).to.equal(true)
    })

    it('resumes what was begun before what waits, within the limit', async () => {
      const gates = Array.from({ length: 4 }, () => new Gate())
      const definitions = gates.map((gate, n) => define(`a${n}`, [gate.step]))
      const first = start(definitions)
      for (let n = 0; n < 4; n++) first.submit(order(`${n}`, `a${n}`, `g${n}`))
      await Promise.all(gates.map((gate) => gate.entered(1)))
      first.submit(order('later', 'a0', 'h'))
      await first.close(5) // the gates do not listen: as if killed there
      const begun: string[] = []
      const observer = ({ operationId, phase }: { operationId: string; phase: string }): void => {
        if (phase === 'before-run') begun.push(operationId)
      }
      for (const gate of gates) gate.open()
      const again = start(definitions, { parallel: 1, observer })
      await again.wait('later')
      expect(begun).to.deep.equal(['0', '1', '2', '3', 'later'])
    })

    for (const [state, undone] of [
      ['pending', true],
      ['running', false],
    ] as const)
      it(`ends an operation whose ${state} entry is damaged, and goes on with its guest`, async () => {
        const outcomes: OperationOutcome[] = []
        const ran: string[] = []
        const settle = (_: unknown, outcome: OperationOutcome): void => void outcomes.push(outcome)
        const definition = define('a', [step('one', ({ operationId }) => void ran.push(operationId))], {
          settle,
        })
        const first = start([definition])
        for (const id of ['1', '2']) first.submit(order(id, 'a', 'g'))
        await first.close()
        changes.db.prepare("UPDATE operations SET input = '{\"x\":', status = ? WHERE id = '1'").run(state)
        const second = start([definition])
        expect(await second.wait('1')).to.include({ status: 'failed', errorCode: 'journal_damaged' })
        expect((await second.wait('2')).status).to.equal('done')
        expect([ran, outcomes[0]]).to.deep.include(['2'])
        expect(outcomes[0]).to.include({ status: 'failed', undone })
        expectRefused(
          () => second.submit({ ...order('1', 'a', 'g'), hashOf: { x: 2 } }),
          'operation_conflict',
        )
      })

    it('ends what the journal refuses for another reason than room, and goes on with its guest', async () => {
      changes.db.exec(`CREATE TRIGGER btest BEFORE UPDATE OF step ON operations WHEN new.id = '1'
        BEGIN SELECT RAISE(ABORT, 'refused by a bug'); END`)
      const engine = start([define('a', [step('one', () => undefined)])])
      for (const id of ['1', '2']) engine.submit(order(id, 'a', 'g'))
      const first = await engine.wait('1')
      expect(first).to.include({ status: 'failed', errorCode: 'internal_error' })
      expect(first.error).to.contain('refused by a bug')
      expect((await engine.wait('2')).status).to.equal('done')
    })

    it('lets nobody wait for what cannot even be ended', async () => {
      changes.db.exec(`CREATE TRIGGER btest BEFORE UPDATE OF finished_at_ms ON operations WHEN new.id = '1'
        BEGIN SELECT RAISE(ABORT, 'refused by a bug'); END`)
      const engine = start([define('a', [step('one', () => undefined)])])
      for (const id of ['1', '2']) engine.submit(order(id, 'a', 'g'))
      const failure = await engine.wait('1').catch((error: Error) => error.message)
      expect(failure).to.equal('refused by a bug')
      expect((await engine.wait('2')).status).to.equal('done')
    })

    it('fails an operation of another version clearly, and goes on', async () => {
      const first = start([define('new', [])], { parallel: 1 })
      first.submit(order('1', 'new', 'g'))
      await first.close()
      const second = start([define('a', [])])
      const record = await second.wait('1')
      expect(record).to.include({ status: 'failed', errorCode: 'unknown_action' })
      expect(record.error).to.include('knows no operation new')
      second.submit(order('2', 'a', 'g'))
      expect((await second.wait('2')).status).to.equal('done')
    })

    for (const [name, steps, ran] of [
      ['has new steps before it', ['zero', 'one', 'two'], ['zero again', 'one again', 'two']],
      ['has fewer steps', ['zero'], ['zero again']],
      ['has none', [], []],
      ['is the same', ['one', 'two'], ['two again']],
    ] as const)
      it(`resumes at the first step where the version that goes on ${name}`, async () => {
        const gate = new Gate()
        const first = start([define('a', [step('one', () => undefined), { ...gate.step, name: 'two' }])])
        first.submit(order('1', 'a', 'g'))
        await gate.entered(1)
        await first.close(5)
        const seen: string[] = []
        const others = steps.map((name) =>
          step(name, ({ repeated }) => void seen.push(repeated ? `${name} again` : name)),
        )
        const second = start([define('a', others)])
        expect((await second.wait('1')).status).to.equal('done')
        expect(seen).to.deep.equal(ran)
        gate.open()
      })
  })

  describe('progress', () => {
    it('shows stage and share of what is done', async () => {
      const gate = new Gate()
      const steps: Step<unknown>[] = [
        { name: 'light', weight: 1, run: async () => undefined },
        {
          name: 'heavy',
          weight: 3,
          run: async (context) => {
            context.report(0.5, 'half of it')
            await gate.pass()
          },
        },
      ]
      const engine = start([define('a', steps)])
      engine.submit(order('1', 'a', 'g'))
      await gate.entered(1)
      expect(engine.get('1')).to.include({ stage: 'heavy', progress: 25 })
      await waitFor(() => engine.get('1').stage === 'half of it')
      expect(engine.get('1')).to.include({ progress: 62, status: 'running' })
      gate.open()
      expect(await engine.wait('1')).to.include({ stage: '', progress: 100 })
    })

    it('does not flood the journal with a chatty step, nor hear it once it has ended', async () => {
      let late: (() => void) | undefined
      const chatty = step('chatty', async (context) => {
        late = () => context.report(0.1, 'late')
        for (let n = 0; n < 20_000; n++) context.report(n / 20_000, `line ${n}`)
      })
      const engine = start([define('a', [chatty])])
      const heard: Change[] = []
      changes.onChange((change) => heard.push(change))
      engine.submit(order('1', 'a', 'g'))
      const { revision } = await engine.wait('1')
      expect(heard.length).to.be.at.most(5)
      late?.()
      await new Promise((done) => setTimeout(done, 250))
      expect(engine.get('1')).to.include({ revision, stage: '' })
    })

    it('lists newest first, and only what changed since', async () => {
      const engine = start([define('a', [])])
      for (const id of ['1', '2', '3']) engine.submit(order(id, 'a', id))
      await Promise.all(['1', '2', '3'].map((id) => engine.wait(id)))
      expect(engine.store.list().map(({ id }) => id)).to.deep.equal(['3', '2', '1'])
      const { revision } = engine.get('2')
      const since = engine.store.list(revision - 1).map(({ id }) => id)
      expect(since).to.include('2').and.not.include('1')
      expect(engine.store.list(changes.revision)).to.deep.equal([])
    })
  })
})

type Command =
  | { kind: 'submit' | 'delete'; guest: number; steps: number; fails: boolean }
  | { kind: 'cancel'; nth: number }
  | { kind: 'turns'; count: number }
  | { kind: 'restart' }

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      guest: fc.integer({ min: 0, max: 3 }),
      steps: fc.integer({ min: 0, max: 3 }),
      fails: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('delete' as const),
      guest: fc.integer({ min: 1, max: 3 }),
      steps: fc.constant(1),
      fails: fc.constant(false),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), nth: fc.nat(40) }) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 8 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) },
)

/** A journal of its own; guest 0 stands for "no guest". */
async function interleave(commands: readonly Command[], parallel: number): Promise<void> {
  const world = new Interleaving(parallel)
  for (const item of commands) await world.apply(item)
  await world.check()
  await world.close()
}

class Interleaving {
  readonly #changes = new Changes(openDatabase(':memory:'))
  readonly #gauge = new Gauge()
  readonly #submitted: { id: string; fails: boolean }[] = []
  #engine: OperationEngine

  constructor(private readonly parallel: number) {
    this.#engine = this.#open()
    this.#engine.recover()
  }

  async apply(item: Command): Promise<void> {
    switch (item.kind) {
      case 'turns':
        for (let n = 0; n < item.count; n++) await new Promise(setImmediate)
        return
      case 'restart':
        await this.#engine.close()
        this.#engine = this.#open()
        return void this.#engine.recover()
      case 'cancel':
        return this.#cancel(this.#submitted[item.nth]?.id)
      case 'submit':
      case 'delete': {
        const id = `${this.#submitted.length}`
        const guest = item.guest === 0 ? '' : `g${item.guest}`
        this.#engine.submit({
          ...order(id, item.kind, guest),
          input: { steps: item.steps, fails: item.fails },
        })
        this.#submitted.push({ id, fails: item.fails && item.steps > 0 })
      }
    }
  }

  /** Every operation has ended as it should, and in order. */
  async check(): Promise<void> {
    for (const { id, fails } of this.#submitted) {
      const { status, error } = await this.#engine.wait(id)
      const ended = fails ? 'failed' : 'done'
      expect([ended, 'canceled'], `${id}: ${error}`).to.include(status)
      expect(this.#gauge.firsts.includes(id), `${id} ran, ${status}`).to.equal(status !== 'canceled')
    }
    for (const guest of ['g1', 'g2', 'g3']) {
      const begun = this.#gauge.begun.get(guest) ?? []
      expect(begun).to.deep.equal(begun.toSorted((a, b) => Number(a) - Number(b)))
      expect(this.#engine.busy(guest)).to.equal(false)
    }
    expect(this.#gauge.mostOfGuest).to.be.at.most(1)
    expect(this.#gauge.most).to.be.at.most(this.parallel)
  }

  async close(): Promise<void> {
    await this.#engine.close()
    this.#changes.db.close()
  }

  #open(): OperationEngine {
    const definitions = [
      define(
        'submit',
        [0, 1, 2].map((index) => this.#step(index)),
      ),
      define('delete', [this.#step(0)], { forwardOnly: true }),
    ]
    return new OperationEngine({ changes: this.#changes, definitions, parallel: this.parallel, log, retry })
  }

  #step(index: number): Step<unknown> {
    return {
      name: `s${index}`,
      run: (context) => {
        const { steps, fails } = context.input as { steps: number; fails: boolean }
        return this.#gauge.during(context, () => {
          if (fails && index === steps - 1) throw new Error('wanted')
        })
      },
      undo: (context) => this.#gauge.during(context, () => undefined),
    }
  }

  #cancel(id: string | undefined): void {
    if (id !== undefined && this.#engine.get(id).status === 'pending') this.#engine.cancel(id)
  }
}

/** Counts what runs at the same time, and in which order operations begin. */
class Gauge {
  most = 0
  mostOfGuest = 0
  readonly begun = new Map<string, string[]>()
  readonly firsts: string[] = []
  #running = 0
  readonly #ofGuest = new Map<string, number>()

  step(name: string): Step<unknown> {
    return { name, run: (context) => this.during(context, () => undefined) }
  }

  async during({ guestUuid, operationId }: StepContext<unknown>, work: () => void): Promise<void> {
    this.#enter(guestUuid, operationId)
    try {
      await new Promise(setImmediate)
      work()
    } finally {
      this.#running -= 1
      this.#ofGuest.set(guestUuid, (this.#ofGuest.get(guestUuid) ?? 1) - 1)
    }
  }

  #enter(guest: string, id: string): void {
    this.most = Math.max(this.most, (this.#running += 1))
    const ofGuest = (this.#ofGuest.get(guest) ?? 0) + 1
    this.#ofGuest.set(guest, ofGuest)
    if (guest !== '') this.mostOfGuest = Math.max(this.mostOfGuest, ofGuest)
    if (this.firsts.includes(id)) return
    this.firsts.push(id)
    this.begun.set(guest, [...(this.begun.get(guest) ?? []), id])
  }
}

/** A step that waits to be let through; deaf to the shutdown. */
class Gate {
  #open = (): void => undefined
  readonly #opened = new Promise<void>((resolve) => (this.#open = resolve))
  #entered = 0

  readonly step: Step<unknown> = { name: 'gate', run: () => this.pass() }

  pass(): Promise<void> {
    this.#entered += 1
    return this.#opened
  }

  open(): void {
    this.#open()
  }

  entered(times: number): Promise<unknown> {
    return waitFor(() => this.#entered >= times, { intervalMs: 2 })
  }
}

function define(
  action: string,
  steps: readonly Step<unknown>[],
  rest: Partial<OperationDefinition<unknown>> = {},
): OperationDefinition<unknown> {
  return { action, steps, ...rest }
}

function step(name: string, run: (context: StepContext<unknown>) => void | Promise<void>): Step<unknown> {
  return { name, run: async (context) => run(context) }
}

function order(id: string, action: string, guestUuid: string): Submission {
  return { id, action, guestUuid, guestId: 7, guestName: 'seven', input: { x: 1 }, requestedBy: 'test' }
}

function fail(message = 'no'): never {
  throw new Error(message)
}

function withCause(): never {
  throw new Error('outer', { cause: new Error('inner') })
}

function selfReferring(): unknown {
  const value: Record<string, unknown> = {}
  value['self'] = value
  return value
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
  })
}

function expectRefused(work: () => OperationRecord | void, code: string): void {
  let thrown: unknown
  try {
    work()
  } catch (error) {
    thrown = error
  }
  expect(thrown, 'refused').to.have.property('code', code)
}

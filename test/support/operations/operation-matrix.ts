import { expect } from 'chai'
import { pino } from 'pino'
import { OperationEngine } from '../../../agent/operations/engine.js'
import type {
  OperationDefinition,
  OperationRecord,
  Step,
  StepContext,
  StepEvent,
  StepObserver,
} from '../../../agent/operations/types.js'
import type { Changes } from '../../../agent/state/changes.js'

type Phase = StepEvent['phase']

/** One operation that is ready to be submitted, with an agent's journal and a host of its own. */
export interface MatrixSubject {
  readonly changes: Changes
  /** The definition of the operation, as the agent would use it. */
  readonly definition: OperationDefinition<unknown, string>
  submit(engine: OperationEngine): OperationRecord | Promise<OperationRecord>
  /**
   * Returns the state of the host and of the journal's domain tables, read without the code under test. The result
   * contains no times and no random names, so that equal states of two subjects give equal results.
   */
  inventory(): Promise<unknown>
  destroy(): Promise<void>
}

export interface MatrixOptions {
  /** Names of all steps in order. A test checks that the operation's definition has the same steps. */
  readonly steps: readonly string[]
  readonly undone: readonly string[]
  /** True if the operation is never rolled back. A test compares the value with the operation's definition. */
  readonly forwardOnly?: boolean
  /** Steps at which faults are injected. By default all steps. */
  readonly tried?: readonly string[]
  /**
   * `every` (the default) tests all faults. `one` tests two faults. The first: the agent is stopped after each step and
   * each undo, and the next agent repeats this step or undo. The second: the step `earlyFailure` fails.
   */
  readonly faults?: 'every' | 'one'
  /** The step that fails in the tests of undo (default: the last step). Earlier steps must be undone if possible. */
  readonly undoneFrom?: string
  /** With `faults: 'one'`: the step that fails after its run. No later step may then run or be undone. */
  readonly earlyFailure?: string
  readonly prepare: () => Promise<MatrixSubject>
  /** Checks the state after a failure. By default it must equal the state before the operation. */
  readonly checkFailed?: (after: unknown, before: unknown, at: Pick<StepEvent, 'step' | 'phase'>) => void
  /** Time limit of one case. By default 120 s. */
  timeoutMs?: number
}

type MatrixFaults = Pick<MatrixOptions, 'faults' | 'earlyFailure'>
const isEveryFault = ({ faults }: MatrixFaults): boolean => faults !== 'one'

/** Returns the phases in which the step fails. Each phase is a separate test. */
function failingPhases(options: MatrixFaults, step: string): readonly ('before-run' | 'after-run')[] {
  if (isEveryFault(options)) return ['before-run', 'after-run']
  return step === options.earlyFailure ? ['after-run'] : []
}

/** Returns the step that fails in the tests of undo. By default it is the last step. */
const failedLast = ({ undoneFrom, steps }: MatrixOptions): string => undoneFrom ?? steps.at(-1) ?? ''

function expectDefinition({ definition }: MatrixSubject, options: MatrixOptions): void {
  expect(definition.steps.map(({ name }) => name)).to.deep.equal(options.steps)
  const undone = definition.steps.filter((step) => step.undo !== undefined).map(({ name }) => name)
  expect(undone).to.deep.equal(options.undone)
  expect(definition.forwardOnly ?? false).to.equal(options.forwardOnly ?? false)
}

/**
 * Adds tests that inject each fault at each step. A step fails before or after its run. A run or an undo is executed
 * twice. The agent ends before or after a run or an undo, and a new engine recovers from the journal. A `forwardOnly`
 * operation must reach the same end state as without the fault.
 */
export function describeOperationMatrix(title: string, options: MatrixOptions): void {
  describe(title, function () {
    this.timeout(options.timeoutMs ?? 120_000)
    let subject: MatrixSubject
    /** States of host and journal before the operation and after its success, with which every case is compared. */
    let [earlier, clean]: unknown[] = []

    before(async () => {
      subject = await options.prepare()
      expectDefinition(subject, options)
      earlier = await subject.inventory()
      const record = await runToEnd(subject)
      clean = await subject.inventory()
      await subject.destroy()
      expect(record.status, record.error).to.equal('done')
    })
    beforeEach(async () => {
      subject = await options.prepare()
    })
    afterEach(() => subject.destroy())

    const expectDone = async (record: OperationRecord): Promise<void> => {
      expect(record.status, record.error).to.equal('done')
      expect(await subject.inventory()).to.deep.equal(clean)
    }
    const expectFailed = async (record: OperationRecord, at: Pick<StepEvent, 'step' | 'phase'>): Promise<void> => {
      expect(record.status).to.equal('failed')
      expect(record.error).to.equal(injected)
      const check = options.checkFailed ?? ((after, before) => expect(after).to.deep.equal(before))
      check(await subject.inventory(), earlier, at)
    }

    const tried = (step: string): boolean => options.tried?.includes(step) ?? true
    const isEvery = isEveryFault(options)
    const phasesGone = isEvery ? (['before', 'after'] as const) : (['after'] as const)
    for (const step of options.steps.filter(tried)) {
      for (const phase of phasesGone)
        it(`is completed after a restart if the agent is killed ${phase} the step "${step}"`, async () => {
          const id = await runUntilGone(subject, step, `${phase}-run`)
          await expectDone(await recoverAndWait(subject, id))
        })

      for (const phase of failingPhases(options, step))
        it(`${outcomeOf(options)} the step "${step}" fails ${phase === 'before-run' ? 'before it does anything' : 'after it took effect'}`, async () => {
          const record = await runToEnd(subject, failAt(step, phase, options.forwardOnly))
          if (options.forwardOnly) await expectDone(record)
          else await expectFailed(record, { step, phase })
        })

      if (!isEvery) continue
      it(`has the same result if the step "${step}" runs twice`, async () => {
        await expectDone(await runToEnd(subject, undefined, twice(subject.definition, step, 'run')))
      })
    }

    const last = failedLast(options)
    for (const step of options.undone.filter(tried)) {
      for (const phase of phasesGone)
        it(`is rolled back after a restart if the agent is killed ${phase} the undo of the step "${step}"`, async () => {
          const id = await runUntilGone(subject, step, `${phase}-undo`, failAt(last, 'after-run'))
          const record = await recoverAndWait(subject, id)
          await expectFailed(record, { step: last, phase: 'after-run' })
        })
      if (!isEvery) continue

      it(`is rolled back correctly even if the step "${step}" is undone twice`, async () => {
        const definition = twice(subject.definition, step, 'undo')
        const record = await runToEnd(subject, failAt(last, 'after-run'), definition)
        await expectFailed(record, { step: last, phase: 'after-run' })
      })
    }
  })
}

/** Returns the beginning of the title of a case in which a step fails. */
function outcomeOf({ forwardOnly, checkFailed }: MatrixOptions): string {
  if (forwardOnly) return 'is completed even if'
  return checkFailed ? 'fails and leaves a consistent state if' : 'is rolled back if'
}

const injected = 'injected failure'

function failAt(step: string, phase: Phase, once = false): StepObserver {
  let failed = false
  return (event) => {
    if (event.step !== step || event.phase !== phase || (once && failed)) return
    failed = true
    throw new Error(injected)
  }
}

/** Makes the definition of an operation in which one step runs two times in a row, or is undone two times in a row. */
function twice(
  definition: OperationDefinition<unknown, string>,
  name: string,
  phase: 'run' | 'undo',
): OperationDefinition<unknown, string> {
  const repeat = (step: Step<unknown, string>): Step<unknown, string> => ({
    ...step,
    [phase]: async (context: StepContext<unknown, string>) => {
      await step[phase]?.(context)
      await step[phase]?.({ ...context, repeated: true })
    },
  })
  const steps = definition.steps.map((step) => (step.name === name ? repeat(step) : step))
  return { ...definition, steps }
}

function engineOf(subject: MatrixSubject, observer?: StepObserver, definition = subject.definition): OperationEngine {
  const engine = new OperationEngine({
    changes: subject.changes,
    definitions: [definition],
    parallel: 4,
    log: pino({ level: 'silent' }),
    retry: { firstMs: 1, maxMs: 10, undoAttempts: 3 },
    ...(observer && { observer }),
  })
  engine.recover()
  return engine
}

async function runToEnd(
  subject: MatrixSubject,
  observer?: StepObserver,
  definition?: OperationDefinition<unknown, string>,
): Promise<OperationRecord> {
  const engine = engineOf(subject, observer, definition)
  const { id } = await subject.submit(engine)
  const record = await engine.wait(id)
  await engine.close()
  return record
}

/** Runs an operation up to this phase of a step, and then stops forever, as if the agent had died. */
async function runUntilGone(subject: MatrixSubject, step: string, phase: Phase, other?: StepObserver): Promise<string> {
  let arrive = (): void => undefined
  const arrived = new Promise<void>((resolve) => (arrive = resolve))
  const engine = engineOf(subject, (event) => {
    if (event.step !== step || event.phase !== phase) return other?.(event)
    arrive()
    return new Promise(() => undefined)
  })
  const { id } = await subject.submit(engine)
  const ended = engine.wait(id).then((record) => {
    throw new Error(`ended before ${phase} of ${step}: ${record.status} ${record.error}`)
  })
  await Promise.race([arrived, ended])
  return id
}

async function recoverAndWait(subject: MatrixSubject, id: string): Promise<OperationRecord> {
  const engine = engineOf(subject)
  const record = await engine.wait(id)
  await engine.close()
  return record
}

import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { OperationEngine } from '../../agent/operations/engine.js'
import type { OperationRecord, StepEvent } from '../../agent/operations/types.js'
import {
  createFileDefinition,
  deleteFileDefinition,
  fileInventory,
  fileSteps,
  openFileWorld,
  readTrace,
  reserveGuest,
  type FileWorld,
} from '../support/operations/file-operations.js'
import type { ChildOrders } from '../support/operations/operation-child.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operations/operation-matrix.js'
import { nodeArguments } from '../support/programs.js'

const prefix = 'btest-operations-'
const subject = { kind: 'guest', id: 'g1', name: 'one', number: 1 }
const order = { subject, input: { a: 1 }, requestedBy: 'test' }

before(() => {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(prefix)))
    rmSync(join(tmpdir(), name), { recursive: true, force: true })
})

function makeDirectory(): string {
  return mkdtempSync(join(tmpdir(), prefix))
}

function subjectOf(world: FileWorld, rest: Pick<MatrixSubject, 'definition' | 'submit'>): MatrixSubject {
  return {
    ...rest,
    changes: world.changes,
    inventory: async () => fileInventory(world),
    destroy: async () => {
      world.changes.db.close()
      rmSync(world.directory, { recursive: true })
    },
  }
}

describeOperationMatrix('an operation with an undo for each step', {
  steps: fileSteps,
  undone: fileSteps,
  prepare: async () => {
    const world = openFileWorld(makeDirectory())
    const reserve = (): void => reserveGuest(world, 'g1')
    return subjectOf(world, {
      definition: createFileDefinition(world),
      submit: (engine) => engine.submit({ ...order, id: 'c1', action: 'create', reserve }),
    })
  },
})

describeOperationMatrix('an operation without a rollback (deletion)', {
  steps: fileSteps.toReversed(),
  undone: [],
  forwardOnly: true,
  prepare: async () => {
    const world = openFileWorld(makeDirectory())
    const engine = engineOf(world)
    engine.submit({ ...order, id: 'c1', action: 'create', reserve: () => reserveGuest(world, 'g1') })
    await engine.wait('c1')
    await engine.close()
    return subjectOf(world, {
      definition: deleteFileDefinition(world),
      submit: (engine) => engine.submit({ ...order, id: 'd1', action: 'delete' }),
    })
  },
})

function engineOf(world: FileWorld): OperationEngine {
  const engine = new OperationEngine({
    changes: world.changes,
    definitions: [createFileDefinition(world), deleteFileDefinition(world)],
    parallel: 4,
    log: pino({ level: 'silent' }),
    retry: { firstMs: 1, maxMs: 10, undoAttempts: 3 },
  })
  engine.recover()
  return engine
}

describe('an operation whose process is killed', function () {
  let directory: string

  beforeEach(() => (directory = makeDirectory()))
  afterEach(() => rmSync(directory, { recursive: true }))

  const made = { rows: [{ uuid: 'g1', status: 'made' }], files: ['g1', ...fileSteps.map((s) => `g1/${s}`)] }
  const nothing = { rows: [], files: [] }
  const create: ChildOrders['submit'] = [{ id: 'c1', action: 'create', guestUuid: 'g1' }]
  const fail = { step: 'initialize', phase: 'after-run' } as const

  const finish = async (): Promise<{ record: OperationRecord; inventory: unknown }> => {
    const world = openFileWorld(directory)
    const engine = engineOf(world)
    const record = await engine.wait('c1')
    const inventory = fileInventory(world)
    await engine.close()
    world.changes.db.close()
    return { record, inventory: { ...inventory, files: (inventory['files'] as string[]).sort() } }
  }

  for (const step of fileSteps) {
    for (const phase of ['before-run', 'after-run'] as const)
      it(`succeeds after a restart if it is killed ${phase.split('-')[0]} the run of the step "${step}", and repeats ${phase === 'after-run' ? 'only this step' : 'no step'}`, async () => {
        await expectKilled(directory, { submit: create, kill: { step, phase } })
        const { record, inventory } = await finish()
        expect(record.status, record.error).to.equal('done')
        expect(inventory).to.deep.equal({ ...made, files: made.files.toSorted() })
        const repeated = phase === 'after-run' ? [step] : []
        const ran = fileSteps.flatMap((name) => (repeated.includes(name) ? [name, name] : [name]))
        expect(readTrace(directory)).to.deep.equal(ran.map((name) => `g1 c1 ${name}`))
      })

    for (const phase of ['before-undo', 'after-undo'] as const)
      it(`is undone with the original error after a restart if it is killed ${phase.split('-')[0]} the undo of the step "${step}"`, async () => {
        await expectKilled(directory, { submit: create, fail, kill: { step, phase } })
        const { record, inventory } = await finish()
        expect(record).to.include({
          status: 'failed',
          error: 'injected failure',
          errorCode: 'internal_error',
        })
        expect(inventory).to.deep.equal(nothing)
      })
  }

  it('leaves only complete guests even if it is killed many times at random moments', async () => {
    const guests = Array.from({ length: 6 }, (_, n) => `g${n}`)
    const submit = guests.flatMap((guestUuid, n): ChildOrders['submit'] => [
      { id: `c${n}`, action: 'create', guestUuid },
      ...(n % 2 === 0 ? [] : [{ id: `d${n}`, action: 'delete', guestUuid } as const]),
    ])
    const accepted = new Set<string>()
    let kills = 0
    for (;;) {
      const child = await runChild(directory, { submit }, kills < 12 ? Math.random() * 60 : undefined)
      for (const line of child.lines) if (line.startsWith('accepted ')) accepted.add(line.slice(9))
      if (child.signal === null) break
      kills += 1
    }
    const world = openFileWorld(directory)
    const records = engineOf(world).store.list()
    expect(records.map(({ id }) => id)).to.have.members([...accepted])
    expect(records.filter(({ status }) => status !== 'done' && status !== 'canceled')).to.deep.equal([])
    const kept = guests.filter((_, n) => n % 2 === 0)
    expect(fileInventory(world)).to.deep.equal({
      rows: kept.map((uuid) => ({ uuid, status: 'made' })),
      files: kept.flatMap((uuid) => [uuid, ...fileSteps.map((step) => `${uuid}/${step}`)]).sort(),
    })
    world.changes.db.close()
  })
})

interface ChildEnd {
  code: number | null
  signal: NodeJS.Signals | null
  lines: string[]
}

/** @param killAfterMs time from the recovery of the child to its SIGKILL; default: it is not killed */
function runChild(directory: string, orders: ChildOrders, killAfterMs?: number): Promise<ChildEnd> {
  const args = nodeArguments('test/support/operations/operation-child.ts', directory, JSON.stringify(orders))
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    if (output === '' && killAfterMs !== undefined) setTimeout(() => child.kill('SIGKILL'), killAfterMs)
    output += chunk.toString('utf8')
  })
  return new Promise((done, fail) => {
    child.once('error', fail)
    child.once('close', (code, signal) => done({ code, signal, lines: output.trim().split('\n') }))
  })
}

async function expectKilled(
  directory: string,
  orders: ChildOrders & { kill: Pick<StepEvent, 'step' | 'phase'> },
): Promise<void> {
  const { signal, code } = await runChild(directory, orders)
  expect(signal, `exit code ${code}`).to.equal('SIGKILL')
}

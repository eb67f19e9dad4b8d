import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AgentConfigSchema } from '../../agent/config.js'
import { Closers } from '../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../agent/daemon/domain.js'
import type { OperationEngine } from '../../agent/operations/engine.js'
import { Orders } from '../../agent/operations/orders.js'
import type { OperationRecord } from '../../agent/operations/types.js'
import { removeSwap } from '../../agent/swap/remove.js'
import { SwapFiles } from '../../agent/swap/swap-files.js'
import { validateConfig } from '../../shared/config.js'
import type { SwapAction } from '../../shared/swap-rules.js'
import { memoryDirectory } from '../support/memory/lab-agent.js'
import { MemoryHost } from '../support/memory/memory-host.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operations/operation-matrix.js'
import { silentLog } from '../support/gateway/redis.js'
import { scratchDirectory, swapsBelow } from '../support/scratch.js'

/*
 * Injects every fault into every step of every change of the swap, with real swap files. A failed change must leave the
 * swap of the host as it was.
 */

interface Wish {
  readonly action: SwapAction
  readonly sizeMb: number
}

const steps = ['make', 'use', 'keep', 'release', 'clean']

describe('operations on swap files, on a real host', function () {
  const scratch = scratchDirectory('btest-swap-matrix')
  after(() => scratch.wipe())

  const cases: [string, Wish[], Wish][] = [
    ['the creation of a swap file', [], { action: 'create', sizeMb: 64 }],
    ['the enlargement of the swap file', [{ action: 'create', sizeMb: 64 }], { action: 'resize', sizeMb: 96 }],
    ['the reduction of the swap file', [{ action: 'create', sizeMb: 96 }], { action: 'resize', sizeMb: 64 }],
    ['the deactivation of the swap file', [{ action: 'create', sizeMb: 64 }], { action: 'disable', sizeMb: 0 }],
    [
      'the activation of the swap file',
      [
        { action: 'create', sizeMb: 64 },
        { action: 'disable', sizeMb: 0 },
      ],
      { action: 'enable', sizeMb: 0 },
    ],
    [
      'the resize of an inactive swap file',
      [
        { action: 'create', sizeMb: 64 },
        { action: 'disable', sizeMb: 0 },
      ],
      { action: 'resize', sizeMb: 96 },
    ],
  ]
  for (const [title, before, wish] of cases)
    describeOperationMatrix(title, {
      steps,
      undone: steps,
      prepare: () => prepare(scratch.path, before, wish),
    })
})

async function prepare(path: string, before: readonly Wish[], wish: Wish): Promise<MatrixSubject> {
  const directory = join(path, randomUUID())
  const units = join(directory, 'units')
  mkdirSync(units, { recursive: true })
  const given = { state_dir: directory, run_dir: join(directory, 'run'), swap: { unit_dir: units } }
  const config = validateConfig(AgentConfigSchema, given, 'test')
  // The agent's journal is in memory, where syncs are fast. Swap files must be on a disk.
  const stateDir = mkdtempSync(join(memoryDirectory, 'btest-swap-journal-'))
  const closers = new Closers()
  const host = { ...new MemoryHost().open(config), swap: new SwapFiles(config) }
  const domain = await openDomain(host, { config: { ...config, state_dir: stateDir }, log: silentLog }, closers)
  domain.engine.recover()
  for (const one of before) {
    const { id } = await submit(domain, domain.engine, one)
    const { status, error } = await domain.engine.wait(id)
    expect(status, error).to.equal('done')
  }
  return {
    changes: domain.changes,
    definition: domain.kinds.changeSwap,
    submit: (engine) => submit(domain, engine, wish),
    inventory: async () => inventoryOf(join(directory, 'swap'), units),
    destroy: async () => {
      await closers.run()
      await removeSwap(config)
      expect(existsSync(join(directory, 'swap')), 'the purge leaves nothing').to.equal(false)
      for (const made of [directory, stateDir]) rmSync(made, { recursive: true })
    },
  }
}

/** Swap files with their sizes, swap in use, systemd units, and the units that a boot activates. */
function inventoryOf(directory: string, units: string): unknown {
  const relative = (file: string): string => file.slice(directory.length + 1)
  const wants = join(units, 'swap.target.wants')
  return {
    files: existsSync(directory)
      ? readdirSync(directory).map((name) => [name, statSync(join(directory, name)).size])
      : [],
    active: swapsBelow(directory).map(relative),
    units: readdirSync(units)
      .filter((name) => name.endsWith('.swap'))
      .map((name) => /^What=(.*)$/m.exec(readFileSync(join(units, name), 'utf8'))?.[1])
      .map((file) => relative(file ?? '')),
    booted: existsSync(wants) ? readdirSync(wants).map((name) => existsSync(join(wants, name))) : [],
  }
}

async function submit(domain: Domain, engine: OperationEngine, value: Wish): Promise<OperationRecord> {
  const orders = new Orders(engine, domain.kinds)
  const order = { $case: 'changeSwap', value } as const
  return (await orders.submit({ operationId: randomUUID(), requestedBy: 'test', order })).operation
}

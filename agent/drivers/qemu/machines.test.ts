import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import pino from 'pino'
import { waitFor } from '../../../test/support/wait.js'
import type { StopCause } from '../contract.js'
import { findLiveProcess } from '../../host/process/proc.js'
import { Machines } from './machines.js'
import { qemuPaths } from './paths.js'
import { QemuRuntimeReader } from './runtime.js'

describe('the watcher of the guests’ QEMU processes', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-machines-'))
  const paths = qemuPaths({ stateDir: directory, runDir: directory, namePrefix: 'bt' })
  const run = paths.runOf('bt-1')
  let killedForMemory = 0
  const machines = new Machines({
    paths,
    runtime: new QemuRuntimeReader(directory),
    uuidOf: () => undefined,
    listNames: () => [],
    clear: async () => undefined,
    onEvent: () => undefined,
    log: pino({ enabled: false }),
    ranOutOfMemory: (pid) => pid === killedForMemory,
  })
  after(() => {
    machines.close()
    rmSync(directory, { recursive: true, force: true })
  })

  it('truncates a QEMU log that has become too long, even while QEMU writes to this log', async () => {
    mkdirSync(run.directory, { recursive: true })
    const said = openSync(run.log, 'a') // appends to the log, like launch-machine.pl
    machines.track('bt-2', 'has no log', findLiveProcess(process.pid)!)
    machines.track('bt-1', 'prints much', findLiveProcess(process.pid)!)
    writeSync(said, Buffer.alloc(2 ** 20 + 1, 'x'))
    await waitFor(() => statSync(run.log).size === 0)
    writeSync(said, 'virtio: bogus\n')
    closeSync(said)
    expect(readFileSync(run.log, 'utf8')).to.equal('virtio: bogus\n')
  })

  it('reports whether QEMU was killed because memory ran out', async () => {
    const ended = new Map<string, StopCause>()
    machines.onStopped((uuid, cause) => ended.set(uuid, cause))
    const children = ['killed', 'starved'].map((uuid, index) => {
      const child = spawn('sleep', ['600'])
      machines.track(`bt-${index + 10}`, uuid, findLiveProcess(child.pid!)!)
      return child
    })
    killedForMemory = children[1]!.pid!
    for (const child of children) child.kill('SIGKILL')
    await waitFor(() => ended.size === 2, { what: 'both ends' })
    expect(Object.fromEntries(ended)).to.deep.equal({ killed: 'crash', starved: 'memory' })
  })
})

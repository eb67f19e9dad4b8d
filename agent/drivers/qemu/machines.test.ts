import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import pino from 'pino'
import { waitFor } from '../../../test/support/wait.js'
import { findLiveProcess } from '../../host/proc.js'
import { Machines } from './machines.js'
import { qemuPaths } from './paths.js'
import { RuntimeReader } from './runtime.js'

describe('Machines', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-machines-'))
  const paths = qemuPaths({ stateDir: directory, runDir: directory, namePrefix: 'bt' })
  const run = paths.runOf('bt-1')
  const machines = new Machines({
    ...{ paths, runtime: new RuntimeReader(directory), uuidOf: () => undefined, listNames: () => [] },
    ...{ clear: async () => undefined, onEvent: () => undefined, log: pino({ enabled: false }) },
    ranOutOfMemory: () => false,
  })
  after(() => {
    machines.close()
    rmSync(directory, { recursive: true, force: true })
  })

  it('empty what a QEMU says without end, which goes on with it', async () => {
    mkdirSync(run.directory, { recursive: true })
    const said = openSync(run.log, 'a') // as launch-machine.pl does
    machines.track('bt-2', 'has no log', findLiveProcess(process.pid)!)
    machines.track('bt-1', 'says much', findLiveProcess(process.pid)!)
    writeSync(said, Buffer.alloc(2 ** 20 + 1, 'x'))
    await waitFor(() => statSync(run.log).size === 0)
    writeSync(said, 'virtio: bogus\n')
    closeSync(said)
    expect(readFileSync(run.log, 'utf8')).to.equal('virtio: bogus\n')
  })
})

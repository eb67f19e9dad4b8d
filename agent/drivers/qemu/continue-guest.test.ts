import { expect } from 'chai'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { conflict } from '../../../shared/errors.js'
import { continueGuest, isPausedByMove, type ContinueContext } from './continue-guest.js'
import { qemuPaths } from './paths.js'

describe('the start of a guest whose QEMU process already exists', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-continue-'))
  const paths = qemuPaths({ stateDir: directory, runDir: directory, namePrefix: 'bt' })
  const run = paths.runOf('bt-1')
  let state: string
  let refusals: number
  let isThere: boolean

  /** Simulates QEMU's monitor: it refuses `cont` as often as `refusals` says, and then lets the guest run. */
  const execute = async (command: string): Promise<unknown> => {
    if (command === 'query-migrate') return { status: 'completed' }
    if (command === 'query-status') return { status: state }
    if (command === 'cont' && refusals-- > 0) throw conflict('machine_refused', 'Migration is not finalized yet')
    if (command === 'cont') state = 'running'
    return {}
  }
  const context = {
    paths,
    log: pino({ level: 'silent' }),
    runtime: { read: () => ({ state: isThere ? 'running' : 'stopped' }) },
    machines: { monitor: async () => (isThere ? { execute } : Promise.reject(conflict('guest_not_running', 'gone'))) },
  } as unknown as ContinueContext

  beforeEach(() => {
    rmSync(run.directory, { recursive: true, force: true })
    mkdirSync(run.directory, { recursive: true })
    refusals = 0
    isThere = true
  })
  after(() => rmSync(directory, { recursive: true, force: true }))

  for (const [name, file, before, continues, after] of [
    ['continues a guest that has arrived from another host', 'arriving', 'paused', true, 'running'],
    ['continues a guest whose move failed after its memory was sent', 'leaving', 'postmigrate', true, 'running'],
    ['continues a guest whose move failed before its memory was sent', 'leaving', 'finish-migrate', true, 'running'],
    ['accepts a guest that runs already', 'leaving', 'running', true, 'running'],
    ['boots a guest whose memory has not arrived completely', 'arriving', 'inmigrate', false, 'inmigrate'],
    ['boots a guest whose QEMU remained after an earlier move', undefined, 'postmigrate', false, 'postmigrate'],
    [
      'boots a guest whose QEMU waits for memory although no move is in progress',
      undefined,
      'inmigrate',
      false,
      'inmigrate',
    ],
    ['does nothing for a running guest that is not moving', undefined, 'running', true, 'running'],
  ] as const)
    it(name, async () => {
      if (file) writeFileSync(run[file], '')
      state = before
      expect([await continueGuest(context, 'bt-1'), state]).to.deep.equal([continues, after])
      expect(isPausedByMove(run)).to.equal(file !== undefined && !continues)
    })

  it('tries again if QEMU refuses to let the guest run', async () => {
    writeFileSync(run.leaving, '')
    ;[state, refusals] = ['postmigrate', 2]
    expect([await continueGuest(context, 'bt-1'), state, existsSync(run.leaving)]).to.deep.equal([
      true,
      'running',
      false,
    ])
  })

  it('boots a guest whose QEMU process ended during the start', async () => {
    writeFileSync(run.leaving, '')
    isThere = false
    expect(await continueGuest(context, 'bt-1')).to.equal(false)
  })
})

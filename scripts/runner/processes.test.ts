import { expect } from 'chai'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { waitFor } from '../../test/support/wait.js'
import type { Job } from './jobs.js'
import { Processes, type JobResult } from './processes.js'

/** The directory `scripts`, which contains the reporter. If the tests are compiled, it contains compiled files. */
const scripts = resolve(import.meta.dirname, '..')

describe('the processes that run tests', () => {
  let scratch = ''
  beforeEach(() => {
    scratch = mkdtempSync(join(tmpdir(), 'btest-runner-'))
    mkdirSync(join(scratch, 'compiled'))
    symlinkSync(scripts, join(scratch, 'compiled/scripts'))
  })
  afterEach(() => rmSync(scratch, { recursive: true, force: true }))

  function jobOf(body: string): Job {
    writeFileSync(join(scratch, 'compiled/sample.test.js'), body)
    const [label, files] = ['sample.test.ts', ['sample.test.ts']]
    return { label, files, kind: 'compute', seconds: 1, inOwnNetwork: false }
  }

  const processesOf = (limitSeconds: number): Processes => new Processes({ scratch, isLive: false, limitSeconds })
  const run = (body: string, limitSeconds = 60): Promise<JobResult> => processesOf(limitSeconds).run(jobOf(body))
  const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}/exe`)
  const readPids = (): number[] => ['pid', 'late'].map((name) => Number(readFileSync(join(scratch, name), 'utf8')))
  /** Returns a test that starts a process in a session of its own. On SIGTERM, this process starts another one. */
  const stubborn = (): string => `it('waits', () => {
    const text = 'late() { sleep 600 & echo $! > late; }; trap late TERM; cd ${scratch}; echo $$ > pid.new; mv pid.new pid; sleep 600 & wait; wait'
    require('node:child_process').spawn('sh', ['-c', text], { detached: true, stdio: 'ignore' })
    return new Promise(() => setTimeout(() => undefined, 600000))
  })`

  it('count passed, failed and skipped tests, and describe each failure', async () => {
    const result = await run(`it('adds', () => undefined); it.skip('later', () => undefined)
      it('breaks', () => { throw new Error('no result') })`)
    expect(result).to.include({ passed: 1, failed: 1, skipped: 1, isComplete: true })
    expect(result.failures.join('')).to.include('breaks').and.include('no result')
  })

  it('report the running test and the last lines of output if they crash', async () => {
    const result = await run(`it('crashes', () => { console.log('nearly done'); process.exit(3) })`)
    expect(result).to.include({ passed: 0, failed: 1, isComplete: false })
    expect(result.failures[0]).to.include('ended with code 3 in: crashes').and.include('nearly done')
  })

  it('report a file that cannot be loaded', async () => {
    const result = await run(`throw new Error('cannot load')`)
    expect(result.failures[0]).to.include('in: loading').and.include('cannot load')
  })

  it('count as failed if they crash after their tests have passed', async () => {
    const result = await run(`it('adds', () => undefined)
      after(() => setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300))`)
    expect(result).to.include({ passed: 1, failed: 1, isComplete: true })
    expect(result.failures[0]).to.include('ended by SIGKILL after its tests')
  })

  it('are killed with their descendants if they exceed the time limit', async () => {
    const result = await run(stubborn(), 3)
    expect(result.failures[0]).to.include('did not end within 3 s in: ')
    await waitFor(() => !readPids().some(isAlive))
  })

  it('are killed with their descendants if the run is interrupted, and the running tests are reported', async () => {
    const processes = processesOf(60)
    const ended = processes.run(jobOf(stubborn()))
    await waitFor(() => existsSync(join(scratch, 'pid')))
    expect(await processes.interrupt()).to.deep.equal(['sample.test.ts\n  interrupted in: waits\n\n'])
    await ended
    await waitFor(() => !readPids().some(isAlive))
  })

  it('read an empty standard input', async () => {
    const result = await run(`it('reads', () => {
      if (require('node:fs').readFileSync(0, 'utf8') !== '') throw new Error('has input') })`)
    expect(result.passed).to.equal(1)
  })
})

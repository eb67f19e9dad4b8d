import { expect } from 'chai'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { fenceHost } from './fence-host.js'

const log = pino({ level: 'silent' })
const host = { id: 'host-1', name: 'rack $(touch x) 1', address: '192.0.2.7:7443' }

describe('the fencing program', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-fencing-'))
  after(() => rmSync(directory, { recursive: true, force: true }))

  const run = (script: string, seconds = 20): Promise<void> => {
    const program = join(directory, 'fence')
    writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    return fenceHost({ program, arguments: ['--off', 'a b'], timeout_seconds: seconds }, host, log)
  }
  const failure = (script: string, seconds?: number): Promise<string> =>
    run(script, seconds).then(
      () => '',
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    )

  it('gets its arguments and the host without a shell', async () => {
    const out = join(directory, 'out')
    await run(`printf '%s\\n' "$@" > ${out}`)
    expect(readFileSync(out, 'utf8')).to.equal(`--off\na b\nhost-1\n${host.name}\n192.0.2.7:7443\n`)
    expect(existsSync(join(directory, 'x'))).to.equal(false)
  })
  it('prevents the evacuation if its exit code is not 0', async () =>
    expect(await failure('exit 3')).to.match(/^fencing_failed: .*exit code is 3/))
  it('prevents the evacuation if it does not end in time', async () =>
    expect(await failure('exec sleep 60', 1)).to.match(/^fencing_failed: .*killed after 1 s/))
  it('prevents the evacuation if it cannot be started', async () => {
    const config = { program: join(directory, 'missing'), arguments: [], timeout_seconds: 1 }
    const message = await fenceHost(config, host, log).catch(({ message: text }: Error) => text)
    expect(message).to.include('could not be started')
  })
  it('is optional: fencing succeeds without a configured program', () =>
    fenceHost({ program: '', arguments: [], timeout_seconds: 1 }, host, log))
})

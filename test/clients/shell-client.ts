import { expect } from 'chai'
import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { ClientsHost } from './clients-host.js'
import { checkTranscript } from './transcript.js'

const script = resolve(import.meta.dirname, 'shell-script.sh')

/** Runs a script for sh and curl that sends all requests. */
export function describeShellScript(host: ClientsHost): void {
  it('creates, changes, uses and deletes a container', async () => {
    const transcript = join(host.directory, 'shell')
    const env = { ...process.env, URL: host.url, KEY: host.key, TRANSCRIPT: transcript }
    const { stdout } = await promisify(execFile)(script, { env, timeout: 600_000 })
    const ends = ['create', 'reinstall', 'stop', 'start', 'delete'].map((action) => `${action} done`)
    const said = stdout.trim().split('\n')
    expect(said.filter((line) => line.endsWith(' done'))).to.deep.equal(ends)
    expect(said).to.include.members([
      'firewall updated',
      'expiry updated',
      'schedule updated',
      'snapshot restored',
      'snapshot deleted',
      'not_found',
    ])
    expect(stdout).to.match(/^[A-Za-z0-9]{16}$/m)
    expect(stdout).to.match(/^203[01]-\d\d-\d\d \d\d:\d\d:\d\d$/m)
    expect(await checkTranscript(host.url, transcript)).to.be.greaterThan(10)
  })
}

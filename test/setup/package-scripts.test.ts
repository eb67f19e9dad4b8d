import { expect } from 'chai'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { scratchDirectory } from '../support/scratch.js'

/* Runs scripts of the package berth-gateway with the directories of this test, and with simulated programs. */

const { path, wipe } = scratchDirectory('btest-package-scripts')
const programs = join(path, 'programs')

function addProgram(name: string, text: string): void {
  writeFileSync(join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
}

function run(script: string): { status: number | null; output: string } {
  const text = readFileSync(`packaging/berth/bin/${script}`, 'utf8')
    .replaceAll(/(?<=^|[ =])\/(?=etc\/berth|run\/|var\/lib)/gm, `${path}/`)
    .replaceAll('/usr/bin/', '')
  const env = { ...process.env, PATH: `${programs}:${process.env['PATH']}` }
  const { status, stdout, stderr } = spawnSync('sh', ['-s'], { input: text, encoding: 'utf8', env })
  return { status, output: stdout + stderr }
}

describe('the package berth-gateway', () => {
  beforeEach(() => {
    for (const directory of [
      'programs',
      'etc/berth',
      'run/berth/gateway',
      'run/systemd/system',
      'var/lib/berth/gateway',
    ])
      mkdirSync(join(path, directory), { recursive: true })
    for (const name of ['chgrp', 'systemctl', 'sleep']) addProgram(name, ':')
  })
  afterEach(wipe)

  describe('when its initialisation script runs', () => {
    const key = join(path, 'etc/berth/admin.key')
    const calls = (): number => readFileSync(join(path, 'calls'), 'utf8').length
    beforeEach(() => {
      writeFileSync(join(path, 'calls'), '')
      addProgram('setpriv', 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
      addProgram('berth-gateway', `printf x >>${path}/calls; echo "key $(wc -c <${path}/calls)" >"$3"`)
    })

    it('creates the administrator’s API key, which only root can read', () => {
      expect(run('initialise')).to.deep.equal({ status: 0, output: '' })
      expect(readFileSync(key, 'utf8')).to.equal('key 1\n')
      expect(statSync(key).mode & 0o777).to.equal(0o600)
      expect(existsSync(join(path, 'run/berth/gateway/admin.key'))).to.equal(false)
    })

    it('does not create the administrator’s API key again if the operator has deleted it', () => {
      run('initialise')
      rmSync(key)
      expect(run('initialise').status).to.equal(0)
      expect([calls(), existsSync(key)]).to.deep.equal([1, false])
    })

    it('does not replace an existing API key of the administrator', () => {
      writeFileSync(key, 'own key')
      expect(run('initialise').status).to.equal(0)
      rmSync(key)
      run('initialise')
      expect([calls(), existsSync(key)]).to.deep.equal([0, false])
    })

    it('creates the administrator’s API key again if its file is incomplete', () => {
      addProgram('sync', 'exit 1')
      expect(run('initialise').status).to.equal(1)
      rmSync(join(programs, 'sync'))
      expect(run('initialise').status).to.equal(0)
      expect(readFileSync(key, 'utf8')).to.match(/^key/)
    })
  })

  describe('when berth-setup runs', () => {
    it('ends the set-up as soon as the gateway answers', () => {
      writeFileSync(join(path, 'calls'), '')
      addProgram('id', 'echo 0')
      addProgram('berth-agent', 'echo host=h-1')
      addProgram(
        'berth-gateway',
        `[ "$1" != is-ready ] || { printf x >>${path}/calls; [ "$(wc -c <${path}/calls)" -ge 3 ]; }`,
      )
      const { status, output } = run('berth-setup')
      expect(status, output).to.equal(0)
      expect(readFileSync(join(path, 'calls'), 'utf8')).to.equal('xxx')
    })

    it('fails if the gateway does not answer in time', () => {
      addProgram('id', 'echo 0')
      addProgram('berth-gateway', '[ "$1" != is-ready ]')
      const { status, output } = run('berth-setup')
      expect([status, output]).to.deep.equal([
        1,
        'berth-setup: the gateway does not answer: see journalctl -u berth-gateway\n',
      ])
    })
  })
})

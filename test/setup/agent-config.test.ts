import { expect } from 'chai'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { patienceMs } from '../support/wait.js'

/* Tests how the program berth-agent reads its configuration. */

describe('berth-agent', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-config-'))
  after(() => rmSync(directory, { recursive: true }))

  function run(command: string, yaml: string): { status: number | null; stdout: string; stderr: string } {
    const path = join(directory, 'agent.yaml')
    writeFileSync(path, yaml)
    const args = ['dist/agent/main.js', command, '--config', path]
    return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: patienceMs })
  }

  it('prints its configuration, including defaults', () => {
    const { status, stdout } = run('check-config', 'listen: 127.0.0.1:7999')
    expect(status).to.equal(0)
    expect(JSON.parse(stdout)).to.include({ listen: '127.0.0.1:7999', state_dir: '/var/lib/berth/agent' })
  })

  it('refuses to start if the prefix of guests’ interfaces also matches the bridge’s name', () => {
    const dirs = `state_dir: ${directory}/state\nrun_dir: ${directory}/run\nstorage: { pool: ${directory}/pool }\n`
    const { status, stderr } = run('serve', `${dirs}network: { bridge: br0, interface_prefix: br }`)
    expect([status, stderr]).to.deep.equal([
      1,
      'berth-agent: network.interface_prefix: br0 exists and would be mistaken for the interface of a guest\n',
    ])
  })

  for (const command of ['check-config', 'serve'])
    for (const [name, yaml, told] of [
      ['an unknown key', 'network: { brigde: x }', 'network.brigde: '],
      ['a value out of range', 'operations: { parallel: 0 }', 'operations.parallel: '],
      ['a file that is not YAML', '{', 'agent.yaml: '],
    ] as const)
      // The systemd unit does not restart the agent after exit code 2.
      it(`ends the command "${command}" with exit code 2 because of ${name}, and names the key or the file`, () => {
        const { status, stdout, stderr } = run(command, yaml)
        expect([status, stdout]).to.deep.equal([2, ''])
        expect(stderr.split('\n')[0])
          .to.match(/^berth-agent: \//)
          .and.include(told)
        if (name !== 'a file that is not YAML') expect(stderr.trim()).to.not.include('\n')
      })
})

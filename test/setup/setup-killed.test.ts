import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { run, shell } from '../support/host/setup-shell.js'

/*
 * Kills a set-up, and then runs the next one. The test calls functions of the scripts, with its own directories and
 * programs that do nothing.
 */

describe('a set-up that was killed', function () {
  let dir = ''
  before(() => {
    dir = mkdtempSync('/tmp/btest-killed-')
    for (const path of ['etc', 'run', 'var/gateway', 'log', 'lib/dist/agent', 'lib/dist/gateway'])
      mkdirSync(join(dir, path), { recursive: true })
    writeFileSync(join(dir, 'lib/dist/agent/main.js'), 'setInterval(() => undefined, 1000)\n')
    const init = `const { writeFileSync } = require('node:fs')
      writeFileSync(process.argv.at(-1), 'the key')
      writeFileSync('${dir}/var/gateway/secret', '')`
    writeFileSync(join(dir, 'lib/dist/gateway/main.js'), init)
  })
  after(() => {
    inSetup('stop_daemon agent')
    run('pkill', ['-KILL', '-f', daemon()])
    rmSync(dir, { recursive: true, force: true })
  })

  const daemon = (): string => join(dir, 'lib/dist/agent/main.js')

  /** Takes the set-up lock, which the killed processes no longer hold, and runs lines of shell. */
  function inSetup(lines: string): { code: number | null; output: string } {
    const own = ['etc_dir', 'run_base', 'var_dir', 'log_dir', 'lib_dir']
    const directories = own.map((name) => `${name}=${dir}/${name.split('_')[0]}`).join('; ')
    const rest = `admin_key=${dir}/etc/admin.key; setup_log=${dir}/log/setup.log; setup_lock=${dir}/lock`
    return shell(`set_instance btestk; ${directories}; ${rest}; node_program=${process.execPath}; as_berth=()
      runs_systemd() { false; }
      mkdir -p "$(gateway_run_dir)"
      take_setup_lock
      ${lines}`)
  }

  it('leaves a daemon that scripts/down can stop, no matter which command of the set-up ran last', () => {
    const killedAt = (step: number): boolean => {
      const { code, output } = inSetup(`set -T
        step=0
        trap '[ $((step += 1)) -ne ${step} ] || kill -KILL $$' DEBUG
        start_in_background agent
        trap - DEBUG
        until [ "/proc/$(daemon_pid agent)/exe" -ef "$node_program" ]; do sleep 0.01; done`)
      expect(code, output).to.be.oneOf([0, null])
      return code === null
    }
    let step = 1
    let last = false
    for (; !last; step += 1) {
      last = !killedAt(step)
      if (last) expect(inSetup('daemon_pid agent').output).to.match(/^\d+\n$/)
      inSetup('stop_daemon agent')
      expect(run('pgrep', ['-f', daemon()]).output, `killed at command ${step}`).to.equal('')
    }
    expect(step).to.be.greaterThan(10)
  })

  it('lets the next set-up copy the first admin key again if the copy is incomplete', () => {
    // Simulates a kill of install(1) when it has created the file but not yet written the key.
    const killed = inSetup('install() { : >"${@: -1}"; kill -KILL $$; }; initialise_gateway')
    expect(killed.code, killed.output).to.equal(null)
    const { output } = inSetup('initialise_gateway; cat "$admin_key"; stat -c " %a" "$admin_key"')
    expect(output).to.match(/the key 600\n$/)
  })
})

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { run as runProgram, shell, withSetupFunctions } from '../support/host/setup-shell.js'
import { waitFor } from '../support/wait.js'

/** A running script, and a function that returns its output so far. */
interface RunningScript {
  process: ChildProcess
  output: () => string
}

const waiting = 'Waiting: another scripts/up or scripts/down is running'

describe('set-up scripts that run at the same time', function () {
  const started: RunningScript[] = []
  let dir = ''
  before(() => (dir = mkdtempSync('/tmp/btest-lock-')))
  afterEach(async () => {
    for (const { process } of started.splice(0)) await end(process)
  })
  after(() => {
    for (const made of [dir, '/var/log/berth-btestl']) rmSync(made, { recursive: true, force: true })
  })

  function start(program: string, ...args: string[]): RunningScript {
    const process = spawn(program, args, { detached: true })
    let said = ''
    for (const stream of [process.stdout, process.stderr])
      stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const running = { process, output: () => said }
    started.push(running)
    return running
  }

  /** Kills a script and all processes that it has started. */
  async function end({ pid, exitCode, signalCode }: ChildProcess): Promise<void> {
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    process.kill(-pid, 'SIGKILL')
    await waitFor(() => runProgram('pgrep', ['-g', `${pid}`]).code === 1, { what: `end of ${pid}` })
  }

  const says = (running: RunningScript, text: string): Promise<boolean> =>
    waitFor(() => running.output().includes(text), { what: () => `"${text}" in: ${running.output()}` })

  const take = (file: string): string => `setup_lock=${file}; take_setup_lock; echo taken`
  const hold = (file: string): RunningScript => start('bash', ...withSetupFunctions(`${take(file)}; read -r`))
  const release = ({ process }: RunningScript): boolean | undefined => process.stdin?.write('\n')

  for (const [script, ...args] of [
    ['scripts/up', '--instance', 'btestl'],
    ['scripts/down', '--instance', 'btestl'],
    ['scripts/down', '--instance', 'btestl', '--purge'],
  ] as const)
    it(`wait for a running script, even of another instance, and report it: ${script} ${args.join(' ')}`, async () => {
      await says(hold('/run/lock/berth-setup.lock'), 'taken')
      const second = start(script, ...args)
      await says(second, waiting)
      expect(second.output()).to.match(/^[^\n]*\n$/)
    })

  it('continue when the first script ends', async () => {
    const file = join(dir, 'lock')
    const first = hold(file)
    await says(first, 'taken')
    const second = start('bash', ...withSetupFunctions(take(file)))
    await says(second, waiting)
    expect(second.output()).not.to.include('taken')
    release(first)
    await says(second, 'taken')
  })

  it('use a new lock file if a purge has removed the lock file for which they waited', async () => {
    const file = join(dir, 'removed')
    const purge = hold(file)
    await says(purge, 'taken')
    const second = hold(file)
    await says(second, waiting)
    rmSync(file)
    release(purge)
    await says(second, 'taken')
    const third = start('bash', ...withSetupFunctions(take(file)))
    await says(third, waiting)
    release(second)
    await says(third, 'taken')
  })

  it('get different instance numbers', async () => {
    const names = ['btestm', 'btestn', 'btesto']
    const file = join(dir, 'numbers')
    const etcs = names.map((name) => `/etc/berth-${name}`)
    const remove = (): void => etcs.forEach((etc) => rmSync(etc, { recursive: true, force: true }))
    remove()
    try {
      const all = names.map((name) =>
        start('bash', ...withSetupFunctions(`set_instance ${name}; ${take(file)}; write_configs`)),
      )
      await Promise.all(all.map(({ process }) => once(process, 'exit')))
      const numbers = etcs.map((etc) => readFileSync(join(etc, 'number'), 'utf8'))
      expect(new Set(numbers).size, numbers.join()).to.equal(names.length)
    } finally {
      remove()
    }
  })

  it('replace an instance number that was not written completely', () => {
    const { output } = shell(`etc_dir=${dir}; : >${dir}/number; choose_number; cat ${dir}/number`)
    expect(output).to.match(/^[1-9]\n$/)
  })
})

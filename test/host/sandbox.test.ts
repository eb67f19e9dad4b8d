import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect } from 'chai'
import { perlProgram } from '../../agent/host/process/perl-program.js'
import { runInSandbox } from '../../agent/host/process/sandbox.js'
import { moduleUrl, nodeEval } from '../support/programs.js'
import { refusal } from '../support/refusal.js'
import { scratchDirectory } from '../support/scratch.js'
import { waitFor } from '../support/wait.js'

const userId = 3_999_000_000
const namespaces = ['mnt', 'pid', 'net', 'ipc', 'uts'] as const

/** Programs that read untrusted files run in this sandbox. */
describe('the sandbox of a program', function () {
  const { path: scratch, wipe } = scratchDirectory('btest-sandbox')
  const input = join(scratch, 'input')
  const directory = join(scratch, 'work')
  before(() => {
    chmodSync(scratch, 0o700)
    mkdirSync(directory)
    writeFileSync(input, 'from elsewhere\n')
    writeFileSync(join(scratch, 'secret'), 'of the host\n')
  })
  after(wipe)

  const order = { userId, input, directory, mostBytes: 1_000_000 }
  const said = async (script: string): Promise<string> => {
    const { stdout } = await runInSandbox(order, ['/bin/sh', '-c', script], {})
    return stdout.trim()
  }

  it('contains only the input and the directory of the program, and the programs of the system', async () => {
    expect(await said('cat; cat /dev/stdin')).to.equal('from elsewhere\nfrom elsewhere')
    expect(await said('cd /; echo *; echo dev/*')).to.match(
      /^bin dev lib( lib32)?( lib64)?( libx32)? sbin usr work\ndev\/null dev\/stdin dev\/urandom dev\/zero$/,
    )
    expect(await said('echo made >file; cat file; echo $$; id -u')).to.equal(`made\n1\n${userId}`)
    for (const path of [join(scratch, 'secret'), '/proc/1/mountinfo', '/etc/passwd', '/root', '/sys/kernel'])
      expect(await said(`cat ${path} 2>&1 || true`), path).to.match(/No such file/)
  })

  it('contains usable devices even if the umask of the agent is 0077', () => {
    const args = [`${userId}`, input, directory, '', '1000', '/bin/sh', '-c', 'echo x >/dev/null; umask; ls /dev']
    const script = 'umask 0077; exec perl "$@"'
    const said = execFileSync('sh', ['-c', script, 'sh', perlProgram('in-sandbox'), ...args], {
      encoding: 'utf8',
    })
    expect(said).to.equal('0077\nnull\nstdin\nurandom\nzero\n')
  })

  it('permits writes only to the directory of the program', async () => {
    for (const path of ['/x', '/usr/x', '/dev/x', '/dev/stdin', '/bin/x'])
      expect(await said(`echo x 2>&1 >${path} || true`), path).to.match(/Read-only|Permission denied/)
  })

  it('ends with all its processes, and reports the exit code of the sandboxed program', async () => {
    const mark = 31_415_000 + (process.pid % 1000)
    await said(`sleep ${mark} >/dev/null 2>&1 &`)
    await waitFor(() => findProcess(`sleep\0${mark}`) === undefined, { what: 'the child to end' })
    const command = ['/bin/sh', '-c', 'kill -9 $$; exit 3']
    expect(await refusal(runInSandbox(order, command, {}))).to.match(/exit code 3/) // `kill` cannot end process 1
  })

  it('inherits no open file from the agent, and has namespaces of its own', async () => {
    const script = `
      import { runInSandbox } from '${moduleUrl('agent/host/process/sandbox.ts')}'
      await runInSandbox(${JSON.stringify(order)}, ['/bin/sleep', '27182'], {})`
    const node = [process.execPath, ...nodeEval(script)].map((word) => `'${word.replaceAll("'", `'\\''`)}'`)
    const agent = spawn('/bin/sh', ['-c', `exec 7<${scratch}/secret 8<${scratch}; exec ${node.join(' ')}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    try {
      const pid = await waitFor(() => findProcess('/bin/sleep\x0027182'), {
        what: 'the program',
      })
      expect(descriptorsOf(agent.pid!)).to.include(`${scratch}/secret`) // the agent itself has inherited the open file
      const fds = descriptorsOf(pid)
      expect(fds).to.have.length(3)
      expect(fds[0]).to.equal(input)
      for (const name of namespaces)
        expect(readlinkSync(`/proc/${pid}/ns/${name}`), name).to.not.equal(readlinkSync(`/proc/self/ns/${name}`))
      const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').trim().split('\n')
      expect(mounts.map((line) => line.split(' ')[4]).sort()).to.deep.equal([
        '/',
        '/dev/null',
        '/dev/stdin',
        '/dev/urandom',
        '/dev/zero',
        '/usr',
        '/work',
      ])
      expect(readFileSync(`/proc/${pid}/status`, 'utf8')).to.match(/^CapBnd:\t0+$/m)
      await stopped(agent)
      await waitFor(() => findProcess('/bin/sleep\x0027182') === undefined, {
        what: 'the program to end with the agent',
      })
    } finally {
      await stopped(agent)
    }
  })
})

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

function descriptorsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
}

/** Returns the PID of the process whose command line begins with this text. */
function findProcess(command: string): number | undefined {
  const pid = readdirSync('/proc').find((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').startsWith(`${command}\0`)
    } catch {
      return false // the process has ended
    }
  })
  return pid === undefined ? undefined : Number(pid)
}

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { moduleUrl, nodeEval } from '../../../test/support/programs.js'
import { waitFor } from '../../../test/support/wait.js'
import { perlProgram } from './perl-program.js'
import { CommandError, run, runBriefPerl, runPerl } from './process.js'

const failureOf = async (work: Promise<unknown>): Promise<CommandError> => {
  const error = await work.then(
    () => undefined,
    (cause: unknown) => cause,
  )
  expect(error).to.be.instanceOf(CommandError)
  return error as CommandError
}

const directory = mkdtempSync(join(tmpdir(), 'btest-perl-'))
after(() => rmSync(directory, { recursive: true }))
let written = 0

/** Returns Perl code that loads agent/host/perl/common.pl. */
const load = (code: string): string => `require '${perlProgram('common')}'; ${code}`

/** Writes a Perl program. @returns its path without `.pl` */
const perl = (code: string): string => {
  const path = join(directory, `program-${++written}`)
  writeFileSync(`${path}.pl`, code)
  return path
}

describe('the execution of a command', () => {
  it('passes input to the command, and returns its exit code, stdout and stderr', async () => {
    const result = await run('sh', ['-c', 'cat; echo err >&2; exit 3'], { stdin: 'in\n', okCodes: [3] })
    expect(result).to.deep.equal({ code: 3, stdout: 'in\n', stderr: 'err\n' })
  })

  it('passes arguments, environment and input unchanged', async () => {
    const odd = ['', ' ', '-n', `'"$(x)\\`, 'ä\n\u2028', '*']
    const { stdout } = await run('printf', ['%s|', ...odd])
    expect(stdout).to.equal(odd.map((text) => `${text}|`).join(''))
    const env = { PATH: '/usr/bin:/bin', A: 'b=c d' }
    expect((await run('sh', ['-c', 'echo "$A"; umask'], { env, ownUmask: true })).stdout).to.equal('b=c d\n0022\n')
    const binary = Buffer.from(Array.from({ length: 2_000_000 }, (_, at) => at % 256))
    expect((await run('wc', ['-c'], { stdin: binary })).stdout.trim()).to.equal('2000000')
  })

  for (const [name, work, code, text] of [
    ['if the exit code is not accepted', () => run('sh', ['-c', 'echo why >&2; exit 2']), 2, /exit code 2: why/],
    ['if a signal kills the command', () => run('sh', ['-c', 'kill -TERM $$']), null, /killed by signal 15/],
    ['if the program does not exist', () => run('berth-no-such-program', []), 127, /No such file or directory/],
    [
      'if the command exceeds the timeout',
      () => run('sleep', ['20'], { timeoutMs: 50 }),
      null,
      /killed because it did not end within 50 ms/,
    ],
    [
      'if a child of the command exceeds the timeout',
      () => run('sh', ['-c', 'sleep 20 & sleep 20'], { timeoutMs: 50 }),
      null,
      /killed because it did not end within 50 ms/,
    ],
    ['if the output is too long', () => run('yes', []), null, /too much output/],
    ['if it is aborted', () => run('sleep', ['20'], { signal: AbortSignal.timeout(30) }), null, /aborted/],
    [
      'if it was aborted before the start',
      () => run('sleep', ['20'], { signal: AbortSignal.abort() }),
      null,
      /aborted/,
    ],
  ] as const)
    it(`fails ${name}`, async () => {
      const error = await failureOf(work())
      expect(error.code).to.equal(code)
      expect(error.message).to.match(text)
    })

  it('returns the right output for each of many concurrent commands', async () => {
    const numbers = Array.from({ length: 60 }, (_, at) => String(at))
    const results = await Promise.all(numbers.map((at) => run('sh', ['-c', 'sleep 0.02; echo $0', at])))
    expect(results.map(({ stdout }) => stdout.trim())).to.deep.equal(numbers)
  })

  it('reads large output completely, without delaying other commands', async () => {
    const bytes = 64 * 1024 * 1024
    const small = Array.from({ length: 40 }, (_, at) => run('sh', ['-c', `sleep 0.0${at % 10}; echo ${at}`]))
    const pattern = 'BEGIN { for (i = 0; i < 8388608; i++) printf "%07d\\n", i }'
    const { stdout } = await run('awk', [pattern], { maxOutputBytes: bytes + 1 })
    expect(stdout.length).to.equal(bytes)
    expect(stdout.slice(-8)).to.equal('8388607\n')
    expect((await Promise.all(small)).map(({ stdout }) => Number(stdout))).to.deep.equal([...small.keys()])
  })

  it('reports every line of output, even after the stored output has reached its limit', async () => {
    let lines = 0
    const options = { maxOutputBytes: 100, onStderrLine: () => void lines++ }
    await run('sh', ['-c', 'seq 1 5000 >&2'], options)
    expect(lines).to.equal(5000)
  })
})

describe('the launcher of commands', () => {
  const findLauncher = (): number =>
    Number(execFileSync('pgrep', ['-P', String(process.pid), '-f', '^berth-launcher'], { encoding: 'utf8' }))
  const findSleep = (mark: string): number =>
    Number(spawnSync('pgrep', ['-f', `^sleep ${mark}`], { encoding: 'utf8' }).stdout)
  const endSleep = (mark: string): void => {
    const pid = findSleep(mark)
    expect(pid, 'it runs').to.be.above(0) // kill(0) would end this process's own group
    process.kill(pid)
  }
  const bothBegin = (...marks: string[]): Promise<unknown> =>
    waitFor(() => marks.every(findSleep), { what: 'both commands' })

  it('is started again if it is killed, and only commands allowed to outlive the launcher keep running', async () => {
    await run('true', [])
    const killed = failureOf(run('sleep', ['31.17']))
    let survives = true
    const survivor = failureOf(run('sleep', ['31.0171'], { survives: true })).finally(() => (survives = false))
    await bothBegin('31.17', '31.0171')
    process.kill(findLauncher(), 'SIGKILL')
    expect((await killed).code).to.equal(null)
    await waitFor(() => !findSleep('31.17'), { what: 'the command to end' })
    expect(survives).to.equal(true)
    endSleep('31.0171')
    expect((await survivor).code).to.equal(null)
    expect((await run('echo', ['again'])).stdout).to.equal('again\n')
  })

  it('ends when its agent is killed, and only commands allowed to outlive the agent keep running', async () => {
    const agent = `import { run } from '${moduleUrl('agent/host/process/process.ts')}'
      run('sleep', ['32.18']); run('sleep', ['32.018'], { survives: true }); setInterval(() => {}, 1000)`
    const child = spawn(process.execPath, nodeEval(agent))
    try {
      await bothBegin('32.18', '32.018')
    } finally {
      child.kill('SIGKILL')
    }
    await waitFor(() => !findSleep('32.18'), { what: 'the command to die' })
    endSleep('32.018')
  })

  it('continues to run other commands if one command cannot be started', async () => {
    let pid = 0
    const other = failureOf(run('sleep', ['33.19'], { onStart: (started) => (pid = started) }))
    await waitFor(() => pid, { what: 'the command to begin' })
    const limit = (...of: string[]): string =>
      execFileSync('prlimit', ['--pid', String(findLauncher()), ...of], { encoding: 'utf8' }).trim()
    const before = limit('--nofile', '--noheadings', '--output', 'SOFT')
    limit('--nofile=5:') // the launcher has more open descriptors than this limit
    const refused = await failureOf(run('true', []))
    limit(`--nofile=${before}:`)
    expect(refused.message).to.match(/pipe: Too many open files/)
    process.kill(pid, 'SIGTERM')
    expect((await other).message).to.match(/killed by signal 15/)
    expect((await run('echo', ['again'])).stdout).to.equal('again\n')
  })
})

describe('the execution of a Perl program in a separate process', () => {
  it('passes arguments in @ARGV', async () => {
    expect((await runPerl(perl('print join "|", @ARGV'), ['a b', "'"])).stdout).to.equal("a b|'")
  })

  for (const [name, code, stderr] of [
    ['with exactly the message with which the program dies', 'die "why\\n"', /^why\n$/],
    ['with the message of a loaded function that dies', load('ask("it", "capset", 0, 0)'), /^it: Bad address\n$/],
    ['if the program is not Perl', '}', /^Unmatched right curly bracket at .*program-\d+\.pl line 1/],
    ['if the system call is unknown', load('call("fork")'), /^fork: not in the table of system calls\n$/],
    ['if the seccomp filter is empty', load('confine("")'), /^seccomp: the filter is empty or incomplete\n$/],
  ] as const)
    it(`fails ${name}`, async () => {
      const error = await failureOf(runPerl(perl(code), []))
      expect(error.code).to.equal(1)
      expect(error.stderr).to.match(stderr)
    })

  it('fails if the program does not exist', async () => {
    const error = await failureOf(runPerl(join(directory, 'missing'), []))
    expect([error.code, error.stderr]).to.deep.equal([1, `${directory}/missing.pl: No such file or directory\n`])
  })

  it('succeeds if the last expression of the program is undefined, or if the program has caught an error', async () => {
    const code = 'eval { die "handled" }; $! = 2; print "done"; undef'
    expect((await runPerl(perl(code), [])).stdout).to.equal('done')
  })

  it('lets the kernel write to variables that are arguments of a system call', async () => {
    const code = load('my $old = "\\0" x 16; call("prlimit64", 0, 7, 0, $old); print unpack("Q", $old) > 0')
    expect((await runPerl(perl(code), [])).stdout).to.equal('1')
  })

  it('ends with the exit code of the program', async () => {
    expect((await runPerl(perl('print "said"; exit 3'), [], { okCodes: [3] })).stdout).to.equal('said')
  })

  it('passes the whole input to the program', async () => {
    const program = perl('local $/; print length <STDIN>')
    expect((await runPerl(program, [], { stdin: 'x'.repeat(200_000) })).stdout).to.equal('200000')
  })

  it('passes no descriptors of other commands to the program', async () => {
    const reader = run('sh', ['-c', 'cat >/dev/null; echo end'], { stdin: 'x' })
    const stop = new AbortController()
    const sleeper = failureOf(runPerl(perl('sleep 1 while 1'), [], { signal: stop.signal }))
    expect((await reader).stdout).to.equal('end\n')
    stop.abort()
    expect((await sleeper).message).to.match(/aborted/)
  })
})

describe('the execution of a Perl program in the launcher', () => {
  it('returns the printed text in each of several runs', async () => {
    const program = perl('use strict; my $n = 6; sub twice { 2 * shift } print twice($n), "\\n"')
    for (let i = 0; i < 3; i++) expect((await runBriefPerl(program)).stdout).to.equal('12\n')
  })

  it('fails with the message of the dying program, and does not affect later commands', async () => {
    const error = await failureOf(runBriefPerl(perl('print "half"; die "why\\n"')))
    expect([error.code, error.stderr]).to.deep.equal([1, 'why\n'])
    expect((await failureOf(runBriefPerl(perl('}')))).stderr).to.match(/^Unmatched right curly/)
    expect((await failureOf(runBriefPerl(join(directory, 'missing')))).stderr).to.match(/No such file/)
    expect((await run('echo', ['on'])).stdout).to.equal('on\n')
  })

  it('allows a program to define a function with the name of a function of the launcher', async () => {
    expect((await runBriefPerl(perl('sub answer { 1 } print answer()'))).stdout).to.equal('1')
    expect((await run('echo', ['on'])).stdout).to.equal('on\n')
  })
})

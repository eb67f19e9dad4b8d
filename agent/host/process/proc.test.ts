import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { waitFor } from '../../../test/support/wait.js'
import { findProcess, findProgram, parseHandledSignals, parseNetDev, parseProcessStat, readChildren } from './proc.js'

describe('the parser of /proc/PID/stat', () => {
  const rest = '7 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1'
  for (const [name, text, expected] of [
    [
      'reads pid, command, state, parent and start time',
      `12 (init) S ${rest}`,
      { pid: 12, command: 'init', state: 'S', parentPid: 7, startTime: 4242 },
    ],
    [
      'reads a process name that looks like the other fields',
      `12 (a) R 1 (b) Z ${rest}`,
      { pid: 12, command: 'a) R 1 (b', state: 'Z', parentPid: 7, startTime: 4242 },
    ],
  ] as const)
    it(name, () => expect(parseProcessStat(text)).to.deep.equal(expected))
})

describe('the parser of /proc/net/dev', () => {
  it('reads an interface name that is followed by a number without a space', () => {
    const text = ['Inter-|', ' face |', '  bt17:100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0', ''].join('\n')
    expect([...parseNetDev(text)]).to.deep.equal([['bt17', { rxBytes: 100, txBytes: 200 }]])
  })
})

describe('the parser of the handled signals in /proc/PID/status', () => {
  for (const [name, blocked, caught, expected] of [
    [
      'returns blocked signals (systemd receives them by signalfd)',
      '7be3c0fe28014a03',
      '00000000000004ec',
      0x7be3c0fe28014eefn,
    ],
    ['returns the signals that a shell catches', '0000000000000000', '0000000020010002', 0x20010002n],
    [
      'ignores the blocked signals of a shell that blocks all signals while it forks',
      'fffffffe7ffbfeff',
      '0000000020010002',
      0x20010002n,
    ],
    ['returns nothing for a process that handles no signals', '0000000000000000', '0000000000000000', 0n],
  ] as const)
    it(name, () => {
      const status = `Name:\tinit\nSigBlk:\t${blocked}\nSigIgn:\t0000000000000000\nSigCgt:\t${caught}\n`
      expect(parseHandledSignals(status)).to.equal(expected)
    })
})

describe('the identifier of the program that a process runs', () => {
  it('differs between programs, and is undefined for a zombie process', async () => {
    // sleep(1) replaces the shell and does not reap the shell's child, which stays a zombie.
    const parent = spawn('sh', ['-c', 'true & exec sleep 1000'], { stdio: 'ignore' })
    try {
      const ended = (): number | undefined => readChildren(parent.pid ?? 0)[0]
      await waitFor(() => findProcess(ended() ?? 0)?.state === 'Z', { timeoutMs: 5000 })
      expect(findProgram(ended() ?? 0)).to.equal(undefined)
      await waitFor(() => findProcess(parent.pid ?? 0)?.command === 'sleep', { timeoutMs: 5000 })
      expect(findProgram(parent.pid ?? 0)).to.match(/^\d+:\d+$/)
      expect(findProgram(parent.pid ?? 0)).not.to.equal(findProgram(process.pid))
    } finally {
      parent.kill('SIGKILL')
    }
  })
})

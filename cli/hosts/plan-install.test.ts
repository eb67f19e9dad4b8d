import { expect } from 'chai'
import { commandNotes, hasExpired, installNews, installProgress, installStepOf, type NewHost } from './plan-install.js'

const at = '2026-11-28 12:00:00'
const host = (status: string, step?: string, message = ''): NewHost => ({
  id: '1',
  name: 'host2',
  status,
  install: step === undefined ? null : { step, message, at },
})

describe('the installation of a host on the command line', () => {
  for (const [name, now, earlier, step] of [
    ['before the command runs', host('pending'), undefined, 'command'],
    ['with a report', host('pending', 'checking'), undefined, 'checking'],
    ['with the report of an earlier attempt', host('pending', 'failed'), host('pending', 'failed'), 'command'],
    ['after an agent has joined without reports', host('offline'), host('pending'), 'waiting'],
    ['of a host that was offline before', host('offline'), host('offline'), 'command'],
    ['after the gateway has reached the agent', host('online', 'waiting'), undefined, 'online'],
    ['after a failure', host('pending', 'failed', 'no space'), undefined, 'failed'],
  ] as const)
    it(`is at the step “${step}” ${name}`, () => expect(installStepOf(now, earlier)).to.equal(step))

  for (const [name, status, step, isOver, expected] of [
    ['if it is valid', 'valid', 'command', true, false],
    ['if it was used', 'none', 'command', true, false],
    ['if its time limit is over before it was run', 'expired', 'command', false, true],
    ['if its time limit is over while the host joins', 'expired', 'joining', false, true],
    ['if it was replaced after the host had joined, and the new one has expired', 'expired', 'waiting', true, false],
    ['if its time limit is over after a failure', 'expired', 'failed', false, false],
    ['if an older gateway does not report it and the time limit is not over', undefined, 'command', false, false],
    ['if an older gateway does not report it and the time limit is over', undefined, 'command', true, true],
    ['if the host runs it and an older gateway does not report it', undefined, 'checking', true, false],
  ] as const)
    it(`${expected ? 'treats' : 'does not treat'} the command as expired ${name}`, () => {
      const now = { ...host('pending'), ...(status !== undefined && { join_token_status: status }) }
      expect(hasExpired(now, step, isOver)).to.equal(expected)
    })

  it('has a line of progress with the details that the host reports', () => {
    expect(installProgress('command', host('pending'))).to.equal(
      'waiting for the command to be run on the host (step 1 of 5)',
    )
    expect(installProgress('installing', host('pending', 'installing', 'berth-agent 3.0.0'))).to.equal(
      'installing the agent: berth-agent 3.0.0 (step 3 of 5)',
    )
  })

  it('reports each step only once, and nothing about steps before the command followed it', () => {
    expect(installNews(undefined, 'installing')).to.equal(undefined)
    expect(installNews('installing', 'installing')).to.equal(undefined)
    expect(installNews('installing', 'joining')).to.equal('the agent is installed')
    expect(installNews('joining', 'checking')).to.equal(undefined)
  })

  it('explains the command, and warns if other hosts cannot reach the gateway', () => {
    const command = { command: 'curl', expires_at: at, join_address: '127.0.0.1:8081', join_local_only: false }
    expect(commandNotes('host2', command)).to.have.lengthOf(1)
    expect(commandNotes('host2', { ...command, join_local_only: true }).join('\n')).to.contain(
      'Only the machine of the gateway can reach 127.0.0.1:8081',
    )
  })
})

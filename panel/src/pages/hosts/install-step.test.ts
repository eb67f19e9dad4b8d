import { expect } from 'chai'
import type { Host } from '../../api/types.ts'
import { hasExpiredCommand, installStepOf, isBeingInstalled } from './install-step.ts'

type Step = NonNullable<Host['install']>['step']

const host = (status: Host['status'], step?: Step, at = '2026-11-26 09:00:00') =>
  ({ status, last_seen: '', install: step ? { step, message: '', at } : null }) as Host

describe("the step of a host's installation", () => {
  for (const [what, now, earlier, step] of [
    ['is "command" until the installation script reports', host('pending'), undefined, 'command'],
    ['is the step that the script reported last', host('pending', 'installing'), host('pending'), 'installing'],
    ['is "failed" after the script has reported a failure', host('pending', 'failed'), host('pending'), 'failed'],
    ['is "online" after the gateway has reached the agent', host('online', 'waiting'), host('pending'), 'online'],
    [
      'is "online" even if the installation script has reported a failure before',
      host('online', 'failed'),
      undefined,
      'online',
    ],
    ['is "waiting" if an agent joins without the installation script', host('offline'), host('pending'), 'waiting'],
    [
      'is "command" if the only report of the script is older than the command',
      host('pending', 'failed'),
      host('pending', 'failed'),
      'command',
    ],
    [
      'is "command" if the host was already offline when the command was shown',
      host('offline', 'waiting'),
      host('offline', 'waiting'),
      'command',
    ],
    [
      'is "failed" if the script reports the same failure again at a later time',
      host('pending', 'failed', '2026-11-26 09:10:00'),
      host('pending', 'failed'),
      'failed',
    ],
  ] as const)
    it(what, () => expect(installStepOf(now, earlier)).to.equal(step))

  it('is shown until the gateway has reached the agent for the first time', () => {
    expect(isBeingInstalled(host('pending'))).to.equal(true)
    expect(isBeingInstalled(host('offline', 'waiting'))).to.equal(true)
    expect(isBeingInstalled(host('online', 'waiting'))).to.equal(false)
    expect(isBeingInstalled({ ...host('offline'), last_seen: '2026-11-26 09:00:00' })).to.equal(false)
  })

  for (const [status, token, expected] of [
    ['pending', 'expired', true],
    ['pending', 'valid', false],
    ['pending', 'none', false],
    ['offline', 'expired', false],
    ['online', 'expired', false],
  ] as const)
    it(`${expected ? 'ends' : 'continues'} if the host is ${status} and its join token is ${token}`, () =>
      expect(hasExpiredCommand({ ...host(status), join_token_status: token })).to.equal(expected))
})

import { expect } from 'chai'
import type { Host } from '../../api/types.ts'
import { installStepOf, isBeingInstalled } from './install-step.ts'

type Step = NonNullable<Host['install']>['step']

const host = (status: Host['status'], step?: Step, at = '2026-11-26 09:00:00') =>
  ({ status, last_seen: '', install: step ? { step, message: '', at } : null }) as Host

describe('the step of an installation', () => {
  for (const [what, now, earlier, step] of [
    ['waits for the command until the script reports', host('pending'), undefined, 'command'],
    ['is the last reported step', host('pending', 'installing'), host('pending'), 'installing'],
    ['is failed with the report of a failure', host('pending', 'failed'), host('pending'), 'failed'],
    ['is online once the gateway reaches the agent', host('online', 'waiting'), host('pending'), 'online'],
    ['is online even if the script has failed before', host('online', 'failed'), undefined, 'online'],
    ['is waiting if an agent joins without the script', host('offline'), host('pending'), 'waiting'],
    ['ignores a report from before the command', host('pending', 'failed'), host('pending', 'failed'), 'command'],
    [
      'waits for the command on a host that is offline',
      host('offline', 'waiting'),
      host('offline', 'waiting'),
      'command',
    ],
    [
      'is the same step again if it was reported again',
      host('pending', 'failed', '2026-11-26 09:10:00'),
      host('pending', 'failed'),
      'failed',
    ],
  ] as const)
    it(what, () => expect(installStepOf(now, earlier)).to.equal(step))

  it('is shown until the gateway has reached the agent once', () => {
    expect(isBeingInstalled(host('pending'))).to.equal(true)
    expect(isBeingInstalled(host('offline', 'waiting'))).to.equal(true)
    expect(isBeingInstalled(host('online', 'waiting'))).to.equal(false)
    expect(isBeingInstalled({ ...host('offline'), last_seen: '2026-11-26 09:00:00' })).to.equal(false)
  })
})

import { expect } from 'chai'
import type { FleetUpgrade, Host } from '../../api/types.ts'
import { canRollBack, canUpgrade, commandsOf, mayBegin } from './upgrade-step.ts'

type FleetHost = FleetUpgrade['hosts'][number]

describe('the buttons for upgrades', () => {
  const host = {
    upgrade: null,
    status: 'online',
    outdated: true,
    features: ['upgrade'],
    previous_version: '1',
  } as const
  const running = { state: 'running' } as NonNullable<Host['upgrade']>
  for (const [name, fields, up, back] of [
    ['an outdated host', {}, true, true],
    ['a host with the current version', { outdated: false }, false, true],
    ['a host without earlier packages', { previous_version: '' }, true, false],
    ['an offline host', { status: 'offline' }, false, false],
    ['a host that runs from a checkout', { features: [] }, false, false],
    ['a host that is being upgraded', { upgrade: running }, false, false],
  ] as const)
    it(`offer ${up ? 'an' : 'no'} upgrade and ${back ? 'a' : 'no'} rollback for ${name}`, () => {
      const given = {
        ...host,
        ...fields,
        features: [...((fields as { features?: string[] }).features ?? host.features)],
      }
      expect([canUpgrade(given), canRollBack(given)]).to.deep.equal([up, back])
    })

  const fleet = (state: FleetUpgrade['state'], hosts: Partial<FleetHost>[] = [], action = 'upgrade'): FleetUpgrade =>
    ({ state, action, hosts }) as FleetUpgrade
  const done = { state: 'done', step: 'done' } as const
  for (const [name, given, commands, begin] of [
    ['if the fleet has had no upgrade', fleet('none'), [], true],
    [
      'while an upgrade of the fleet is running',
      fleet('running', [{ state: 'waiting', step: '' }]),
      ['pause', 'cancel'],
      false,
    ],
    [
      'while an upgrade of the fleet is running and has upgraded a host',
      fleet('running', [done]),
      ['pause', 'cancel', 'rollback'],
      false,
    ],
    ['while an upgrade of the fleet is paused', fleet('paused', [done]), ['resume', 'cancel', 'rollback'], false],
    [
      'while an upgrade of the fleet is stopped',
      fleet('stopped', [{ state: 'failed', step: 'failed' }]),
      ['resume', 'cancel'],
      true,
    ],
    [
      'while a host continues its upgrade although the upgrade of the fleet was canceled',
      fleet('canceled', [{ state: 'upgrading' }]),
      ['rollback'],
      false,
    ],
    ['after an upgrade of the fleet', fleet('done', [done]), ['rollback'], true],
    ['after an upgrade of the fleet that changed no host', fleet('done', [{ state: 'done', step: '' }]), [], true],
    ['after a rollback of the fleet', fleet('done', [done], 'rollback'), [], true],
  ] as const)
    it(`offer ${commands.join(', ') || 'no command'} ${name}`, () => {
      expect([commandsOf(given), mayBegin(given)]).to.deep.equal([commands, begin])
    })
})

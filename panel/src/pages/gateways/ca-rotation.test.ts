import { expect } from 'chai'
import type { FleetCa } from '../../api/types.ts'
import { caCommandsOf } from './ca-rotation.ts'

const offline = { host_id: 'h', name: 'h', status: 'offline', excluded: false, reason: 'offline' } as const

describe('the commands for the certificate authority', () => {
  for (const [name, rotation, commands] of [
    ['begin if there was no rotation', { state: 'none' }, ['begin']],
    ['begin again after the end', { state: 'ended', missing_hosts: [offline] }, ['begin']],
    ['cancel or finish while the new one is distributed', { state: 'distributing' }, ['cancel', 'finish']],
    ['finish when it is ready', { state: 'ready' }, ['finish']],
    ['nothing while it ends', { state: 'ending', finishing: true }, []],
    [
      'finish without hosts that are offline',
      { state: 'reissuing', missing_hosts: [offline] },
      ['finish', 'finishWithout'],
    ],
    [
      'do not offer this for hosts in progress',
      { state: 'reissuing', missing_hosts: [{ ...offline, reason: 'in_progress' }] },
      ['finish'],
    ],
    [
      'do not offer this for excluded hosts',
      { state: 'ready', finishing: true, missing_hosts: [{ ...offline, excluded: true }] },
      [],
    ],
  ] as const)
    it(name, () => {
      const ca = { rotation: { finishing: false, missing_hosts: [], ...rotation } } as unknown as FleetCa
      expect(caCommandsOf(ca)).to.deep.equal(commands)
    })
})

import { expect } from 'chai'
import type { FleetCa } from '../../api/types.ts'
import { caCommandsOf } from './ca-rotation.ts'

const offline = { host_id: 'h', name: 'h', status: 'offline', excluded: false, reason: 'offline' } as const

describe('the commands for the rotation of the certificate authority', () => {
  for (const [name, rotation, commands] of [
    ['are "begin" before the first rotation', { state: 'none' }, ['begin']],
    ['are "begin" after a rotation', { state: 'ended', missing_hosts: [offline] }, ['begin']],
    [
      'are "cancel" and "finish" during the distribution of the new CA',
      { state: 'distributing' },
      ['cancel', 'finish'],
    ],
    ['include "finish" when the rotation is ready', { state: 'ready' }, ['finish']],
    ['are not offered while a rotation is finishing', { state: 'ending', finishing: true }, []],
    [
      'offer to exclude hosts that are offline',
      { state: 'reissuing', missing_hosts: [offline] },
      ['finish', 'finishWithout'],
    ],
    [
      'do not offer to exclude hosts that are online but not ready yet',
      { state: 'reissuing', missing_hosts: [{ ...offline, reason: 'in_progress' }] },
      ['finish'],
    ],
    [
      'do not offer to exclude hosts that are already excluded',
      { state: 'ready', finishing: true, missing_hosts: [{ ...offline, excluded: true }] },
      [],
    ],
  ] as const)
    it(name, () => {
      const ca = { rotation: { finishing: false, missing_hosts: [], ...rotation } } as unknown as FleetCa
      expect(caCommandsOf(ca)).to.deep.equal(commands)
    })
})

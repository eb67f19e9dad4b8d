import { expect } from 'chai'
import type { Image } from '../../api/types.ts'
import { groupImages, missingImages, shownImage, stateOf, type ImageFilter } from './image-groups.ts'

const image = (fields: Partial<Image>): Image =>
  ({
    id: 'debian-13',
    name: 'Debian 13',
    type: 'lxc',
    arch: 'amd64',
    host_id: 'a',
    downloaded: false,
    downloading: false,
    enabled: true,
    supported: true,
    error: '',
    ...fields,
  }) as Image
const all: ImageFilter = { text: '', state: '', type: '', host: '' }
const images = [
  image({ id: 'old', name: 'Old', supported: false }),
  image({}),
  image({ host_id: 'b', downloaded: true }),
  image({ id: 'alpine-3', name: 'Alpine 3', error: 'download_failed' }),
  image({ type: 'kvm' }),
]
const keysOf = (filter: Partial<ImageFilter>): string[] =>
  groupImages(images, { ...all, ...filter }).map(({ key, images: { length } }) => `${key} ${length}`)

describe('the state of an image on a host', () => {
  for (const [state, fields] of [
    ['downloading', { downloading: true, error: 'download_failed' }],
    ['ready', { downloaded: true }],
    ['disabled', { downloaded: true, enabled: false }],
    ['unsupported', { supported: false }],
    ['failed', { error: 'download_failed' }],
    ['absent', {}],
  ] as const)
    it(`can be “${state}”`, () => expect(stateOf(image(fields))).to.equal(state))
})

describe('the images of all hosts', () => {
  for (const [name, filter, expected] of [
    [
      'are grouped by system, usable systems first and unusable systems last',
      {},
      ['lxc/amd64/debian-13 2', 'lxc/amd64/alpine-3 1', 'kvm/amd64/debian-13 1', 'lxc/amd64/old 1'],
    ],
    ['can be searched', { text: 'ALPINE' }, ['lxc/amd64/alpine-3 1']],
    ['can be filtered by type', { type: 'kvm' }, ['kvm/amd64/debian-13 1']],
    ['can be filtered by host', { host: 'b' }, ['lxc/amd64/debian-13 1']],
    ['keep all hosts of a system if the filter matches one', { state: 'ready' }, ['lxc/amd64/debian-13 2']],
  ] as const)
    it(name, () => expect(keysOf(filter)).to.deep.equal(expected))

  it('show the selected host, else the searched state, else a failure', () => {
    const group = {
      key: 'x',
      images: [image({}), image({ host_id: 'b', downloaded: true }), image({ host_id: 'c', error: 'x' })],
    } as const
    expect(shownImage(group, 'a', 'ready').host_id).to.equal('a')
    expect(shownImage(group, undefined, 'ready').host_id).to.equal('b')
    expect(shownImage(group, 'gone', '').host_id).to.equal('c')
    expect(missingImages(group).map(({ host_id: id }) => id)).to.deep.equal(['a', 'c'])
  })
})

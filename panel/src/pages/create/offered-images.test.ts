import { expect } from 'chai'
import type { EnabledImage, Image } from '../../api/types.ts'
import { downloadState, offerImages } from './offered-images.ts'

const ready = { id: 'debian-13', name: 'Debian 13', type: 'lxc' } as EnabledImage
const image = (fields: Partial<Image>): Image =>
  ({
    ...({ id: 'alpine', host_id: 'a', supported: true, enabled: true, progress: 0, error: '' } as const),
    ...({ downloaded: false, downloading: false } as const),
    ...fields,
  }) as Image

describe('the images for a new guest', () => {
  const cases: readonly (readonly [string, readonly Image[], string, readonly string[]])[] = [
    ['contain an image once that several hosts could download', [image({}), image({ host_id: 'b' })], '', ['alpine']],
    ['omit images that no host supports', [image({ supported: false })], '', []],
    ['omit disabled images', [image({ enabled: false })], '', []],
    ['omit CDs', [image({ kind: 'iso' })], '', []],
    ['omit images that a host has, but that are disabled there', [image({ downloaded: true, enabled: false })], '', []],
    ['contain only images that the selected host can download', [image({ host_id: 'b' })], 'a', []],
    ['contain images that the selected host can download', [image({ host_id: 'b' })], 'b', ['alpine']],
    ['mark no image as missing that is ready', [image({ id: 'debian-13', downloaded: true })], '', []],
  ]
  for (const [name, catalogue, host, missing] of cases)
    it(name, () => {
      const offered = offerImages([ready], catalogue, host)
      expect(offered.filter((one) => one.missing).map(({ id }) => id)).to.deep.equal(missing)
      expect(offered.filter((one) => !one.missing).map(({ id }) => id)).to.deep.equal(['debian-13'])
    })
})

describe('the download of an image for a new guest', () => {
  const loading = image({ downloading: true, progress: 40 })
  const done = image({ host_id: 'b', downloaded: true, progress: 100 })
  const failed = image({ host_id: 'c', error: 'image_signature' })
  for (const [name, rows, host, expected] of [
    ['is over when no host downloads it', [done, failed], '', { isOver: true, percent: 100, error: '' }],
    ['has the mean progress of its hosts', [loading, done], '', { isOver: false, percent: 70, error: '' }],
    ['has failed if no host has the image', [failed], '', { isOver: true, percent: 0, error: 'image_signature' }],
    ['concerns only the selected host', [loading, done], 'b', { isOver: true, percent: 100, error: '' }],
    ['has failed if the image no longer exists', [], '', { isOver: true, percent: 0, error: 'image_missing' }],
  ] as const)
    it(name, () => expect(downloadState(rows, 'alpine', host)).to.deep.equal(expected))
})

import { expect } from 'chai'
import { selectDefaultImage } from './default-image.ts'

const image = (name: string, distro: string) => ({ id: name.toLowerCase().replace(' ', '-'), name, distro })
const own = image('App 99', 'debian')
const images = [image('Alpine 3.22', 'alpine'), own, image('Debian 9', 'debian'), image('Debian 13', 'debian')]

describe('the image that the form for a new guest begins with', () => {
  for (const [name, offered, lastUsed, expected] of [
    ['the last used one', images, 'alpine-3.22', 'alpine-3.22'],
    ['the newest Debian if none was used', images, undefined, 'debian-13'],
    ['the newest Debian if the last used one is no longer offered', images, 'gone', 'debian-13'],
    ['the first one without Debian', images.slice(0, 2), undefined, 'alpine-3.22'],
  ] as const)
    it(`is ${name}`, () => expect(selectDefaultImage(offered, lastUsed)).to.equal(expected))
})

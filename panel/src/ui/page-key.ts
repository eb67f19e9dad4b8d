/** The page of a path, such as `/containers/7/network`. The tabs of a guest are one page. */
export function pageKeyOf(path: string): string {
  return path.split('/').slice(0, 3).join('/')
}

/** The page of a URL. A query does not matter, because it only filters a page. */
export function pageKeyOfUrl(url: string): string {
  const [, path = '/'] = url.split('#')
  return pageKeyOf(path.split('?')[0] || '/')
}

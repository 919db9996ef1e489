"""What makes a page hard to read, found by a script within it."""

# Text is to differ from what is behind it by the ratio of WCAG AA, and nothing is to be wider than the window.
COMPLAINTS = """() => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], under) => [r, g, b].map((part, i) => part * a + under[i] * (1 - a));
    const light = (colour) => {
        const [r, g, b] = colour.map((part) => ((part /= 255) <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            const layer = rgba(getComputedStyle(at).backgroundColor);
            if (layer[3] > 0) layers.push(layer);
            if (layer[3] === 1) break;
        }
        return layers.reduceRight((under, layer) => over(layer, under), [255, 255, 255]);
    };
    const found = new Set();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { parentElement: element, textContent: text } = texts.currentNode;
        if (!text.trim() || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
        if (element.closest(".unseen, .skip, [aria-hidden=true], svg, .told")) continue;
        const [ground, style] = [behind(element), getComputedStyle(element)];
        const [a, b] = [light(over(rgba(style.color), ground)), light(ground)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) found.add(`${ratio.toFixed(2)}: ${element.className || element.tagName}: ${text.trim().slice(0, 20)}`);
    }
    const wide = document.scrollingElement.scrollWidth - innerWidth;
    if (wide > 0) found.add(`${wide} pixels too wide`);
    for (const button of document.querySelectorAll("button, input, select, [role=grid], [role=tabpanel]")) {
        const name = button.getAttribute("aria-label") || button.getAttribute("aria-labelledby") || button.textContent.trim() || button.labels?.length;
        if (button.checkVisibility() && !name) found.add(`no name: ${button.outerHTML.slice(0, 80)}`);
    }
    return [...found];
}"""

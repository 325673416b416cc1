/*
 * Tries one way out of a build step and prints what came of it:
 *
 *   probe connect HOST PORT    ordinary system calls
 *   probe connect32 HOST PORT  the 32-bit system calls, which a filter for the 64-bit ones does not see
 *   probe raw HOST PORT        a TCP handshake begun by hand through a raw socket
 *   probe packet HOST PORT     the same in a frame, past the kernel's IP layer
 *   probe sniff SECONDS        what passes by, through a packet socket
 *
 * The answer is one line, written at once: several may run side by side. HOST is an IPv4 or IPv6 address, the latter with its interface if need be (fe80::1%eth0).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 3, SOURCE_PORT = 45678 };
static const char REQUEST[] = "GET / HTTP/1.0\r\n\r\n";

/* i386's numbers (arch/x86/entry/syscalls/syscall_32.tbl in Linux). */
enum { SOCKET32 = 359, CONNECT32 = 362, SETSOCKOPT32 = 366, SENDTO32 = 369, RECVFROM32 = 371 };

static int ok(const char *what) {
	printf("%s\n", what);
	return 0;
}

static int failed(void) {
	return ok(strerror(errno));
}

static void limit(int handle) {
	struct timeval patience = {.tv_sec = SECONDS};
	setsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static struct addrinfo *resolve(const char *host, const char *port) {
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
	int error = getaddrinfo(host, port, &hints, &found);
	if (error != 0) {
		ok(gai_strerror(error));
		exit(0);
	}
	return found;
}

static int heard(ssize_t length, char *text) {
	if (length < 0)
		return failed();
	text[length] = '\0';
	for (char *letter = text; *letter != '\0'; letter++)
		if (*letter < ' ')
			*letter = ' ';
	printf("open: %s\n", text);
	return 0;
}

static int try_connect(const struct addrinfo *to) {
	static char text[4096];
	int handle = socket(to->ai_family, SOCK_STREAM, 0);
	if (handle < 0)
		return failed();
	limit(handle);
	if (connect(handle, to->ai_addr, to->ai_addrlen) != 0)
		return failed();
	if (write(handle, REQUEST, strlen(REQUEST)) < 0)
		return failed();
	return heard(read(handle, text, sizeof text - 1), text);
}

/* The sixth argument is left out: it is the length of an address that none of these calls is given. */
static long call32(long number, long a, long b, long c, long d, long e) {
	long result;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "memory", "r8", "r9", "r10", "r11");
	if ((int)result < 0) {
		errno = -(int)result;
		return -1;
	}
	return (int)result;
}

static int try_connect32(const struct addrinfo *to) {
	/* Pointers of 32 bits. */
	char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int patience[2] = {SECONDS, 0};
	if (low == MAP_FAILED)
		return failed();
	long handle = call32(SOCKET32, to->ai_family, SOCK_STREAM, 0, 0, 0);
	if (handle < 0)
		return failed();
	memcpy(low, patience, sizeof patience);
	call32(SETSOCKOPT32, handle, SOL_SOCKET, 20 /* SO_RCVTIMEO_OLD */, (long)low, sizeof patience);
	call32(SETSOCKOPT32, handle, SOL_SOCKET, 21 /* SO_SNDTIMEO_OLD */, (long)low, sizeof patience);
	memcpy(low, to->ai_addr, to->ai_addrlen);
	if (call32(CONNECT32, handle, (long)low, to->ai_addrlen, 0, 0) < 0)
		return failed();
	memcpy(low, REQUEST, sizeof REQUEST);
	if (call32(SENDTO32, handle, (long)low, strlen(REQUEST), 0, 0) < 0)
		return failed();
	return heard(call32(RECVFROM32, handle, (long)low, 4096, 0, 0), low);
}

static unsigned short checksum(const void *data, size_t length, unsigned long sum) {
	const unsigned char *bytes = data;
	for (size_t i = 0; i < length; i += 2)
		sum += (unsigned long)bytes[i] << 8 | (i + 1 < length ? bytes[i + 1] : 0);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((unsigned short)~sum);
}

struct opening {
	struct iphdr ip;
	struct tcphdr tcp;
};

static struct opening make_opening(struct in_addr from, struct in_addr to, int port) {
	struct opening made = {
	    .ip = {.version = 4, .ihl = 5, .tot_len = htons(sizeof made), .id = htons(7), .ttl = 64, .protocol = 6},
	    .tcp = {.source = htons(SOURCE_PORT), .dest = htons(port), .seq = htonl(1), .doff = 5, .syn = 1},
	};
	struct {
		struct in_addr from, to;
		unsigned char zero, protocol;
		unsigned short length;
		struct tcphdr tcp;
	} pseudo = {.from = from, .to = to, .protocol = 6, .length = htons(sizeof made.tcp), .tcp = made.tcp};
	made.tcp.window = pseudo.tcp.window = htons(64240);
	made.tcp.check = checksum(&pseudo, sizeof pseudo, 0);
	made.ip.saddr = from.s_addr;
	made.ip.daddr = to.s_addr;
	made.ip.check = checksum(&made.ip, sizeof made.ip, 0);
	return made;
}

static struct in_addr own_address(int handle) {
	struct ifreq asked = {.ifr_name = "eth0"};
	if (ioctl(handle, SIOCGIFADDR, &asked) != 0) {
		failed();
		exit(0);
	}
	return ((struct sockaddr_in *)&asked.ifr_addr)->sin_addr;
}

/* The gateway's hardware address; the credential service's answers have made the kernel learn it. */
static int gateway(unsigned char hardware[6]) {
	char line[256];
	FILE *table = fopen("/proc/net/arp", "r");
	int found = 0;
	while (table != NULL && fgets(line, sizeof line, table) != NULL)
		found |= sscanf(line, "%*s %*s %*s %hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &hardware[0], &hardware[1],
				&hardware[2], &hardware[3], &hardware[4], &hardware[5]) == 6;
	return found;
}

static int try_opening(const struct addrinfo *to, int frames) {
	struct sockaddr_in *there = (struct sockaddr_in *)to->ai_addr;
	struct opening answer;
	int listener = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
	int sender = frames ? socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP)) : socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (listener < 0 || sender < 0)
		return failed();
	limit(listener);
	struct opening sent = make_opening(own_address(listener), there->sin_addr, ntohs(there->sin_port));
	struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_halen = 6};
	link.sll_ifindex = (int)if_nametoindex("eth0");
	if (frames && !gateway(link.sll_addr))
		return ok("no gateway known");
	const struct sockaddr *address = frames ? (struct sockaddr *)&link : to->ai_addr;
	if (sendto(sender, &sent, sizeof sent, 0, address, frames ? sizeof link : to->ai_addrlen) < 0)
		return failed();
	for (time_t end = time(NULL) + SECONDS; time(NULL) <= end;) {
		if (recv(listener, &answer, sizeof answer, 0) < (ssize_t)sizeof answer)
			continue;
		if (answer.ip.saddr == there->sin_addr.s_addr && answer.tcp.dest == htons(SOURCE_PORT))
			return ok(answer.tcp.syn && answer.tcp.ack ? "open: it answers" : "reset");
	}
	return ok("silence");
}

struct opening6 {
	struct ip6_hdr ip;
	struct tcphdr tcp;
};

struct advert {
	struct ip6_hdr ip;
	struct nd_neighbor_advert advert;
	struct nd_opt_hdr option;
	unsigned char hardware[6];
};

static struct ip6_hdr make_header6(struct in6_addr from, struct in6_addr to, int next, size_t length) {
	struct ip6_hdr made = {.ip6_src = from, .ip6_dst = to};
	made.ip6_flow = htonl(6U << 28);
	made.ip6_plen = htons((unsigned short)length);
	made.ip6_nxt = (unsigned char)next;
	made.ip6_hlim = 255;
	return made;
}

static unsigned short checksum6(const struct ip6_hdr *ip, const void *content) {
	size_t length = ntohs(ip->ip6_plen);
	return checksum(content, length, (unsigned short)~ntohs(checksum(&ip->ip6_src, 32, length + ip->ip6_nxt)));
}

static struct opening6 make_opening6(struct in6_addr from, struct in6_addr to, int port) {
	struct opening6 made = {.ip = make_header6(from, to, IPPROTO_TCP, sizeof made.tcp)};
	made.tcp = (struct tcphdr){.source = htons(SOURCE_PORT), .dest = htons(port), .seq = htonl(1), .doff = 5, .syn = 1};
	made.tcp.window = htons(64240);
	made.tcp.check = checksum6(&made.ip, &made.tcp);
	return made;
}

/* The host asks for the hardware address of whoever knocks before it answers. */
static struct advert make_advert(struct in6_addr from, struct in6_addr to, const void *hardware) {
	struct advert made = {.ip = make_header6(from, to, IPPROTO_ICMPV6, sizeof made - sizeof made.ip)};
	made.advert.nd_na_type = ND_NEIGHBOR_ADVERT;
	made.advert.nd_na_flags_reserved = ND_NA_FLAG_SOLICITED | ND_NA_FLAG_OVERRIDE;
	made.advert.nd_na_target = from;
	made.option = (struct nd_opt_hdr){.nd_opt_type = ND_OPT_TARGET_LINKADDR, .nd_opt_len = 1};
	memcpy(made.hardware, hardware, sizeof made.hardware);
	made.advert.nd_na_cksum = checksum6(&made.ip, &made.advert);
	return made;
}

/* From an address of its own, because the step's interface has none of IPv6. */
static int try_frames6(const struct addrinfo *to) {
	struct sockaddr_in6 *there = (struct sockaddr_in6 *)to->ai_addr;
	struct in6_addr from = {.s6_addr = {0xfe, 0x80, [14] = 0x5e, [15] = 0x01}};
	struct ifreq own = {.ifr_name = "eth0"};
	int handle = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IPV6));
	if (handle < 0 || ioctl(handle, SIOCGIFHWADDR, &own) != 0)
		return failed();
	limit(handle);
	struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IPV6), .sll_halen = 6};
	link.sll_ifindex = (int)if_nametoindex("eth0");
	if (!gateway(link.sll_addr))
		return ok("no gateway known");
	struct opening6 sent = make_opening6(from, there->sin6_addr, ntohs(there->sin6_port));
	if (sendto(handle, &sent, sizeof sent, 0, (struct sockaddr *)&link, sizeof link) < 0)
		return failed();
	for (time_t end = time(NULL) + SECONDS; time(NULL) <= end;) {
		union {
			struct opening6 opening;
			struct {
				struct ip6_hdr ip;
				struct nd_neighbor_solicit solicit;
			};
			char room[2048];
		} heard;
		if (recv(handle, &heard, sizeof heard, 0) < (ssize_t)sizeof heard.opening)
			continue;
		if (heard.ip.ip6_nxt == IPPROTO_ICMPV6 && heard.solicit.nd_ns_type == ND_NEIGHBOR_SOLICIT &&
		    memcmp(&heard.solicit.nd_ns_target, &from, sizeof from) == 0) {
			struct advert answer = make_advert(from, heard.ip.ip6_src, own.ifr_hwaddr.sa_data);
			sendto(handle, &answer, sizeof answer, 0, (struct sockaddr *)&link, sizeof link);
		}
		if (heard.ip.ip6_nxt == IPPROTO_TCP && memcmp(&heard.ip.ip6_src, &there->sin6_addr, sizeof from) == 0 &&
		    heard.opening.tcp.dest == htons(SOURCE_PORT))
			return ok(heard.opening.tcp.syn && heard.opening.tcp.ack ? "open: it answers" : "reset");
	}
	return ok("silence");
}

static int try_raw6(const struct addrinfo *to) {
	struct sockaddr_in6 there = *(struct sockaddr_in6 *)to->ai_addr;
	int handle = socket(AF_INET6, SOCK_RAW, IPPROTO_TCP), place = offsetof(struct tcphdr, check);
	struct tcphdr answer;
	/* The checksum needs the source address, which the kernel chooses. */
	if (handle < 0 || setsockopt(handle, IPPROTO_IPV6, IPV6_CHECKSUM, &place, sizeof place) != 0)
		return failed();
	limit(handle);
	struct opening6 made = make_opening6(there.sin6_addr, there.sin6_addr, ntohs(there.sin6_port));
	there.sin6_port = 0;
	if (sendto(handle, &made.tcp, sizeof made.tcp, 0, (struct sockaddr *)&there, sizeof there) < 0)
		return failed();
	for (time_t end = time(NULL) + SECONDS; time(NULL) <= end;)
		if (recv(handle, &answer, sizeof answer, 0) == (ssize_t)sizeof answer && answer.dest == htons(SOURCE_PORT))
			return ok(answer.syn && answer.ack ? "open: it answers" : "reset");
	return ok("silence");
}

static int sniff(int seconds) {
	static char packet[65536];
	int handle = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	long packets = 0;
	if (handle < 0)
		return failed();
	limit(handle);
	for (time_t end = time(NULL) + seconds; time(NULL) <= end;) {
		ssize_t length = recv(handle, packet, sizeof packet, 0);
		packets += length > 0;
		for (char *at = packet; length > 0; at++) {
			at = memmem(at, (size_t)(packet + length - at), "planted-", 8);
			if (at == NULL)
				break;
			int word = 0;
			while (at + word < packet + length && (isalnum((unsigned char)at[word]) || at[word] == '-'))
				word++;
			printf("seen: %.*s ", word, at);
		}
	}
	printf("%s\n", packets > 0 ? "packets" : "no packets");
	return 0;
}

int main(int count, char **arguments) {
	if (count < 3)
		return 2;
	for (int i = 1; i < count; i++)
		printf("%s%s", i == 1 ? "probe: " : " ", arguments[i]);
	printf(": ");
	if (strcmp(arguments[1], "sniff") == 0)
		return sniff(atoi(arguments[2]));
	struct addrinfo *to = resolve(arguments[2], arguments[3]);
	if (strcmp(arguments[1], "connect") == 0)
		return try_connect(to);
	if (strcmp(arguments[1], "connect32") == 0)
		return try_connect32(to);
	int frames = strcmp(arguments[1], "packet") == 0;
	if (to->ai_family == AF_INET6)
		return frames ? try_frames6(to) : try_raw6(to);
	return try_opening(to, frames);
}
